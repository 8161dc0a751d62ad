// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL keeps one queue of errors per thread, and SSL_get_error reads it: what an earlier call
// left there, on whatever session, would be taken for ours.  So every call that can fail begins
// with ERR_clear_error, and a failure is put into words before anything else is called.

#include "net/tls.h"

#include "base/base.h"
#include "net/tls_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

// RFC 1035, section 2.3.4: 255 bytes on the wire are 253 as text.
enum { host_size_max = 253 };

static const unsigned char http_1_1[] = "\x08http/1.1"; // the wire's list: a size before each name

// Both: text that lives as long as the program.
static const char *errno_text(int error)
{
    const char *text = strerrordesc_np(error);
    return text != NULL ? text : "unknown error";
}

static const char *error_text(unsigned long error)
{
    if (ERR_SYSTEM_ERROR(error)) {
        return errno_text(ERR_GET_REASON(error));
    }
    const char *text = ERR_reason_error_string(error);
    return text != NULL ? text : "unknown error";
}

// The oldest error in the queue is the cause; the later ones tell how it came up through the
// layers.
static enum status file_failed(const char *path, char error[tls_error_size])
{
    unsigned long cause = ERR_peek_error();

    snprintf(error, tls_error_size, "%s: %s", path, error_text(cause));
    ERR_clear_error();
    if (!ERR_SYSTEM_ERROR(cause)) {
        return STATUS_MALFORMED;
    }
    errno = ERR_GET_REASON(cause);
    return STATUS_IO;
}

// OpenSSL's own would ask at the terminal and wait.
static int no_passphrase(char *text, int size, int is_writing, void *asked)
{
    (void)is_writing;
    if (size > 0) {
        text[0] = '\0';
    }
    *(bool *)asked = true;
    return -1;
}

static int pick_protocol(SSL *openssl, const unsigned char **out, unsigned char *out_size,
                         const unsigned char *offered, unsigned int offered_size, void *owner)
{
    (void)openssl;
    (void)owner;
    // OpenSSL has checked that the names fill the list.
    for (unsigned int at = 0; at < offered_size; at += 1U + offered[at]) {
        struct slice name = slice_of(offered + at + 1, offered[at]);
        if (slice_is(name, "http/1.1")) {
            *out = name.bytes;
            *out_size = (unsigned char)name.size;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    // RFC 7301, section 3.2.  Going on without would have the client speak what we cannot.
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

enum status tls_context_create(const SSL_METHOD *method, struct tls_context **out)
{
    struct tls_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        return STATUS_EXHAUSTED;
    }
    context->openssl = SSL_CTX_new(method);
    if (context->openssl == NULL) {
        free(context);
        return STATUS_EXHAUSTED;
    }
    SSL_CTX *openssl = context->openssl;
    long floor_set = SSL_CTX_set_min_proto_version(openssl, TLS1_2_VERSION);
    ASSERT(floor_set == 1);
    SSL_CTX_set_options(openssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(openssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    // Tickets do without a cache, which would grow to 20,000 sessions.
    SSL_CTX_set_session_cache_mode(openssl, SSL_SESS_CACHE_OFF);
    // Head and body of a record in one system call instead of two.
    SSL_CTX_set_read_ahead(openssl, 1);
    *out = context;
    return STATUS_OK;
}

enum status tls_load_identity(SSL_CTX *openssl, const struct tls_server_options *options,
                              char error[tls_error_size])
{
    bool asked = false;

    ERR_clear_error();
    SSL_CTX_set_default_passwd_cb(openssl, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(openssl, &asked);
    if (SSL_CTX_use_certificate_chain_file(openssl, options->certificate) != 1) {
        return file_failed(options->certificate, error);
    }
    // Also compares the key with the certificate, if they are of one kind.
    if (SSL_CTX_use_PrivateKey_file(openssl, options->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(openssl) != 1) {
        enum status status = file_failed(options->key, error);
        if (asked) {
            snprintf(error, tls_error_size, "%s: is under a passphrase", options->key);
        }
        return status;
    }
    SSL_CTX_set_default_passwd_cb_userdata(openssl, NULL); // `asked` ends here
    return STATUS_OK;
}

enum status tls_server_create(const struct tls_server_options *options, struct tls_context **out,
                              char error[tls_error_size])
{
    struct tls_context *context = NULL;

    ASSERT(options->certificate != NULL && options->key != NULL);

    error[0] = '\0';
    enum status status = tls_context_create(TLS_server_method(), &context);
    if (status != STATUS_OK) {
        snprintf(error, tls_error_size, "no memory");
        return status;
    }
    context->is_server = true;
    SSL_CTX_set_alpn_select_cb(context->openssl, pick_protocol, NULL);
    status = tls_load_identity(context->openssl, options, error);
    if (status != STATUS_OK) {
        tls_context_destroy(&context);
        return status;
    }
    *out = context;
    return STATUS_OK;
}

enum status tls_load_trust(SSL_CTX *openssl, const char *ca, char error[tls_error_size])
{
    ERR_clear_error();
    if (ca != NULL) {
        return SSL_CTX_load_verify_file(openssl, ca) == 1 ? STATUS_OK : file_failed(ca, error);
    }
    return SSL_CTX_set_default_verify_paths(openssl) == 1
               ? STATUS_OK
               : file_failed("the system's certificates", error);
}

enum status tls_client_create(const struct tls_client_options *options, struct tls_context **out,
                              char error[tls_error_size])
{
    struct tls_context *context = NULL;

    error[0] = '\0';
    enum status status = tls_context_create(TLS_client_method(), &context);
    if (status != STATUS_OK) {
        snprintf(error, tls_error_size, "no memory");
        return status;
    }
    context->verify = options->verify;
    if (options->verify) {
        SSL_CTX_set_verify(context->openssl, SSL_VERIFY_PEER, NULL);
        status = tls_load_trust(context->openssl, options->ca, error);
    }
    // Zero is success here.
    if (status == STATUS_OK &&
        SSL_CTX_set_alpn_protos(context->openssl, http_1_1, sizeof(http_1_1) - 1) != 0) {
        snprintf(error, tls_error_size, "no memory");
        status = STATUS_EXHAUSTED;
    }
    if (status != STATUS_OK) {
        tls_context_destroy(&context);
        return status;
    }
    *out = context;
    return STATUS_OK;
}

void tls_context_destroy(struct tls_context **context_ptr)
{
    struct tls_context *context = *context_ptr;
    *context_ptr = NULL;

    if (context == NULL) {
        return;
    }
    int saved_errno = errno;
    SSL_CTX_free(context->openssl); // sessions hold references of their own
    OPENSSL_cleanse(context, sizeof(*context));
    free(context);
    errno = saved_errno;
}

static bool is_address(const char *host)
{
    struct in6_addr address; // room for either
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

// Says whom we want to talk to, and that it has to prove it.
static enum status expect_host(SSL *openssl, const char *host, bool verify)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(openssl);
    char name[host_size_max + 1];
    size_t size = strlen(host);

    if (is_address(host)) {
        bool known = !verify || X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
        return known ? STATUS_OK : STATUS_EXHAUSTED;
    }
    // The dot that makes a name absolute is for DNS: RFC 6066, section 3, and certificates leave it
    // out.
    if (size > 0 && host[size - 1] == '.') {
        size--;
    }
    if (size == 0 || size > host_size_max) {
        return STATUS_MALFORMED;
    }
    memcpy(name, host, size);
    name[size] = '\0';
    if (SSL_set_tlsext_host_name(openssl, name) != 1) {
        return STATUS_EXHAUSTED;
    }
    if (verify) {
        X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        if (X509_VERIFY_PARAM_set1_host(param, name, size) != 1) {
            return STATUS_EXHAUSTED;
        }
    }
    return STATUS_OK;
}

enum status tls_session_open(struct tls_context *context, int fd, const char *host,
                             struct tls_session **out)
{
    enum status status = STATUS_EXHAUSTED;
    struct tls_session *session = NULL;

    ASSERT(context->is_server == (host == NULL));

    ERR_clear_error();
    session = calloc(1, sizeof(*session));
    if (session == NULL) {
        goto out;
    }
    session->why = "";
    session->openssl = SSL_new(context->openssl);
    if (session->openssl == NULL || SSL_set_fd(session->openssl, fd) != 1) {
        goto out;
    }
    session->is_peer = context->is_peer;
    if (context->is_keyed) {
        session->is_keyed = true;
        memcpy(session->shared_key, context->shared_key, tls_key_size);
        SSL_set_app_data(session->openssl, session);
    }
    if (context->is_server) {
        SSL_set_accept_state(session->openssl);
    } else {
        SSL_set_connect_state(session->openssl);
        status = expect_host(session->openssl, host, context->verify);
        if (status != STATUS_OK) {
            goto out;
        }
    }
    *out = session;
    session = NULL; // now the caller's
    status = STATUS_OK;

out:
    tls_session_close(&session, false);
    return status;
}

// Describes the failure by the error queue, and sets the errno for the caller.
static const char *protocol_failed(const struct tls_session *session)
{
    unsigned long cause = ERR_peek_error();
    int reason = ERR_GET_LIB(cause) == ERR_LIB_SSL ? ERR_GET_REASON(cause) : 0;

    errno = EPROTO;
    if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        errno = ECONNRESET;
        return "the peer ended the connection without the closing alert";
    }
    const char *words = session->is_peer ? tls_peer_words(reason, session->is_keyed) : NULL;
    if (words != NULL) {
        return words;
    }
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        return X509_verify_cert_error_string(SSL_get_verify_result(session->openssl));
    }
    return error_text(cause);
}

// Judges a call that returned `result`, made right before: errno and the queue are still its own.
static enum status tls_outcome(struct tls_session *session, int result)
{
    switch (SSL_get_error(session->openssl, result)) {
    case SSL_ERROR_NONE:
        return STATUS_OK;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return STATUS_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return STATUS_CLOSED;
    case SSL_ERROR_SYSCALL:
        errno = errno != 0 ? errno : ECONNRESET;
        session->why = errno_text(errno);
        break;
    default:
        session->why = protocol_failed(session);
        break;
    }
    session->error = errno;
    return STATUS_IO;
}

// False, with errno, for a session that has failed: the two directions of a connection are driven
// independently, so that one may still be tried after the other has met the end.
static bool before_call(const struct tls_session *session)
{
    ERR_clear_error();
    errno = session->error;
    return session->error == 0;
}

enum status tls_handshake(struct tls_session *session)
{
    if (!before_call(session)) {
        return STATUS_IO;
    }
    return tls_outcome(session, SSL_do_handshake(session->openssl));
}

enum status tls_read(struct tls_session *session, void *bytes, size_t capacity, size_t *size)
{
    ASSERT(capacity > 0);

    if (!before_call(session)) {
        return STATUS_IO;
    }
    size_t moved = 0;
    enum status status =
        tls_outcome(session, SSL_read_ex(session->openssl, bytes, capacity, &moved));
    if (status == STATUS_OK) {
        *size = moved;
    }
    return status;
}

enum status tls_write(struct tls_session *session, struct slice bytes, size_t *size)
{
    ASSERT(bytes.size > 0);
    ASSERT(bytes.size >= session->sealed);

    // One record a call, and on resuming the same one: offered more, OpenSSL would go on to the
    // next record and, stuck there, not tell that the first is gone.
    size_t count = bytes.size < tls_record_size_max ? bytes.size : tls_record_size_max;
    if (session->sealed > 0) {
        count = session->sealed;
    }
    if (!before_call(session)) {
        return STATUS_IO;
    }
    size_t moved = 0;
    enum status status =
        tls_outcome(session, SSL_write_ex(session->openssl, bytes.bytes, count, &moved));
    session->sealed = status == STATUS_AGAIN ? count : 0;
    if (status == STATUS_OK) {
        *size = moved;
    }
    return status;
}

const char *tls_why(const struct tls_session *session)
{
    return session->why;
}

void tls_session_close(struct tls_session **session_ptr, bool orderly)
{
    struct tls_session *session = *session_ptr;
    *session_ptr = NULL;

    if (session == NULL) {
        return;
    }
    int saved_errno = errno;
    // Before the handshake is over there is nothing to end, and OpenSSL calls it an error.
    if (orderly && session->error == 0 && SSL_is_init_finished(session->openssl)) {
        ERR_clear_error();
        SSL_shutdown(session->openssl); // the alert, without waiting for the peer's
    }
    SSL_free(session->openssl);
    OPENSSL_cleanse(session, sizeof(*session));
    free(session);
    errno = saved_errno;
}
