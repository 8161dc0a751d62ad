// SPDX-License-Identifier: Apache-2.0
//
// Both ends live in one thread, over a socket pair, and take turns until neither can go on.

#include "net/tls_peer.h"

#include "net/certificates.h"
#include "test.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint8_t our_key[tls_key_size] = "the key that both routers share";
static const uint8_t their_key[tls_key_size] = "a key that somebody else invents";

__attribute__((constructor)) static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    make_certificates();
}

static const struct tls_peer_options keyed = {.shared_key = our_key};
static const struct tls_peer_options keyed_otherwise = {.shared_key = their_key};

// Outlives the results of file_in_dir, for a table of options.
static const char *lasting_path(const char *name)
{
    static char paths[64][128];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];
    snprintf(path, sizeof(paths[0]), "%s", file_in_dir(name));
    return path;
}

static struct tls_peer_options certified(const char *certificate, const char *ca)
{
    return (struct tls_peer_options){
        .certificate = lasting_path(certificate),
        .key = lasting_path("key.pem"),
        .ca = lasting_path(ca),
    };
}

struct end {
    struct tls_context *context;
    struct tls_session *session;
    enum status status;
    int fd;
};

static void end_open(struct end *end, struct tls_peer_options options, bool is_server, int fd)
{
    char error[tls_error_size];
    options.is_server = is_server;
    *end = (struct end){.fd = fd, .status = STATUS_AGAIN};
    ASSERT(tls_peer_create(&options, &end->context, error) == STATUS_OK);
    ASSERT(tls_session_open(end->context, fd, is_server ? NULL : "127.0.0.1", &end->session) ==
           STATUS_OK);
    tls_context_destroy(&end->context); // the session keeps what it needs
}

static void end_close(struct end *end)
{
    tls_session_close(&end->session, true);
    close(end->fd);
}

// A client of TLS 1.3 learns of a refusal when it reads.
static void end_step(struct end *end)
{
    char byte;
    size_t size = 0;
    if (end->status == STATUS_AGAIN) {
        end->status = tls_handshake(end->session);
    } else if (end->status == STATUS_OK) {
        enum status status = tls_read(end->session, &byte, 1, &size);
        end->status = status == STATUS_AGAIN ? STATUS_OK : status;
    }
}

static void pair_open(struct end *client, const struct tls_peer_options *client_options,
                      struct end *server, const struct tls_peer_options *server_options)
{
    int fds[2];
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    end_open(client, *client_options, false, fds[0]);
    end_open(server, *server_options, true, fds[1]);
    for (int i = 0; i < 10; i++) {
        end_step(client);
        end_step(server);
    }
}

static bool moves(struct end *from, struct end *to)
{
    char bytes[16];
    size_t size = 0;
    return tls_write(from->session, slice_str("frame"), &size) == STATUS_OK &&
           tls_read(to->session, bytes, sizeof(bytes), &size) == STATUS_OK &&
           slice_is(slice_of(bytes, size), "frame");
}

TEST(one_key_opens_a_connection_both_ways)
{
    struct end client;
    struct end server;
    pair_open(&client, &keyed, &server, &keyed);
    CHECK_STR(tls_why(client.session), "");
    CHECK_STR(tls_why(server.session), "");
    CHECK_EQ(client.status, STATUS_OK);
    CHECK_EQ(server.status, STATUS_OK);
    CHECK(moves(&client, &server) && moves(&server, &client));
    end_close(&client);
    end_close(&server);
}

TEST(certificates_of_one_authority_open_a_connection)
{
    struct end client;
    struct end server;
    struct tls_peer_options options = certified("leaf.pem", "ca.pem");
    struct tls_peer_options other_host = certified("wildcard.pem", "ca.pem");
    pair_open(&client, &options, &server, &other_host);
    CHECK_STR(tls_why(client.session), "");
    CHECK_EQ(client.status, STATUS_OK);
    CHECK_EQ(server.status, STATUS_OK);
    CHECK(moves(&client, &server) && moves(&server, &client));
    end_close(&client);
    end_close(&server);
}

struct refusal {
    struct tls_peer_options client;
    struct tls_peer_options server;
    const char *client_why;
    const char *server_why;
};

static void check_refusal(const struct refusal *refusal)
{
    struct end client;
    struct end server;
    pair_open(&client, &refusal->client, &server, &refusal->server);
    CHECK_STR(tls_why(client.session), refusal->client_why);
    CHECK_STR(tls_why(server.session), refusal->server_why);
    CHECK_EQ(client.status, STATUS_IO);
    CHECK_EQ(server.status, STATUS_IO);
    end_close(&client);
    end_close(&server);
}

TEST(another_key_is_refused_in_words)
{
    check_refusal(&(struct refusal){keyed, keyed_otherwise, "it refused our shared key",
                                    "its shared key differs from ours"});
}

TEST(a_key_and_certificates_do_not_fit)
{
    struct tls_peer_options options = certified("leaf.pem", "ca.pem");
    check_refusal(&(struct refusal){keyed, options,
                                    "it shows a certificate instead of the shared key",
                                    "it does not trust the authority of our certificate"});
    check_refusal(&(struct refusal){options, keyed,
                                    "it does not accept certificates; it may expect a shared key",
                                    "it offered no shared key"});
}

TEST(a_certificate_of_another_authority_is_refused_by_either_side)
{
    struct tls_peer_options ours = certified("leaf.pem", "ca.pem");
    struct tls_peer_options self_signed = certified("self_signed.pem", "ca.pem");
    struct tls_peer_options expired = certified("expired.pem", "ca.pem");
    struct tls_peer_options distrusting = certified("leaf.pem", "other_ca.pem");
    struct refusal refusals[] = {
        {self_signed, ours, "it does not trust the authority of our certificate",
         "self-signed certificate"},
        {ours, self_signed, "self-signed certificate",
         "it does not trust the authority of our certificate"},
        {expired, ours, "it says that our certificate has expired", "certificate has expired"},
        {ours, distrusting, "it does not trust the authority of our certificate",
         "self-signed certificate in certificate chain"},
        {distrusting, ours, "self-signed certificate in certificate chain",
         "it does not trust the authority of our certificate"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        check_refusal(&refusals[i]);
    }
}

// A stranger that speaks TLS by itself, against one of our servers.
static const char *server_why(const struct tls_peer_options *options, int version_max)
{
    int fds[2];
    struct end server;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    SSL_CTX_set_max_proto_version(context, version_max);
    SSL *stranger = SSL_new(context);
    ASSERT(stranger != NULL && SSL_set_fd(stranger, fds[0]) == 1);
    SSL_set_connect_state(stranger);
    end_open(&server, *options, true, fds[1]);
    for (int i = 0; i < 10; i++) {
        char byte;
        ERR_clear_error();
        SSL_read(stranger, &byte, 1);
        end_step(&server);
    }
    ASSERT(server.status == STATUS_IO);
    const char *why = tls_why(server.session);
    end_close(&server);
    SSL_free(stranger);
    SSL_CTX_free(context);
    close(fds[0]);
    return why;
}

TEST(a_stranger_without_a_proof_is_refused)
{
    struct tls_peer_options options = certified("leaf.pem", "ca.pem");
    CHECK_STR(server_why(&keyed, TLS1_3_VERSION), "it offered no shared key");
    CHECK_STR(server_why(&options, TLS1_3_VERSION), "it shows no certificate");
    CHECK_STR(server_why(&keyed, TLS1_2_VERSION), "unsupported protocol");
    CHECK_STR(server_why(&options, TLS1_2_VERSION), "unsupported protocol");
}

TEST(an_unusable_file_is_named_with_the_reason)
{
    struct tls_context *context = NULL;
    char error[tls_error_size];
    struct tls_peer_options options = certified("absent.pem", "ca.pem");
    CHECK_EQ(tls_peer_create(&options, &context, error), STATUS_IO);
    CHECK(strstr(error, "absent.pem: No such file or directory") != NULL);
    options = certified("leaf.pem", "nonsense.pem");
    CHECK_EQ(tls_peer_create(&options, &context, error), STATUS_MALFORMED);
    CHECK(strstr(error, "nonsense.pem: no certificate or crl found") != NULL);
    options = certified("leaf.pem", "ca.pem");
    options.key = lasting_path("other.pem");
    CHECK_EQ(tls_peer_create(&options, &context, error), STATUS_MALFORMED);
    CHECK(strstr(error, "other.pem: key values mismatch") != NULL);
    CHECK(context == NULL);
}
