// SPDX-License-Identifier: Apache-2.0

#include "net/tls_peer.h"

#include "base/base.h"
#include "net/tls_internal.h"

#include <openssl/err.h>
#include <stdio.h>

// The name of the key on the wire, not secret.  It is the same in both directions, so a connection
// may lead a process back to itself: the protocol above has to notice.
static const char key_name[] = "warmpath peer 1";

// RFC 8446, appendix B.4: TLS_AES_128_GCM_SHA256, the one suite that every implementation has.
static const unsigned char suite_id[] = {0x13, 0x01};
static const char suite_name[] = "TLS_AES_128_GCM_SHA256";

// The shared key in the form that OpenSSL takes, or NULL.  A new one for each handshake: a session
// expires five minutes after it was made.
static SSL_SESSION *key_session(SSL *openssl)
{
    const struct tls_session *session = SSL_get_app_data(openssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(openssl, suite_id);
    SSL_SESSION *made = SSL_SESSION_new();

    if (made == NULL || cipher == NULL ||
        SSL_SESSION_set1_master_key(made, session->shared_key, tls_key_size) != 1 ||
        SSL_SESSION_set_cipher(made, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(made);
        return NULL;
    }
    return made;
}

static int offer_key(SSL *openssl, const EVP_MD *digest, const unsigned char **name,
                     size_t *name_size, SSL_SESSION **out)
{
    // After a retry of the hello, OpenSSL asks for a key of the chosen digest.
    if (digest != NULL && EVP_MD_get_type(digest) != NID_sha256) {
        return 0;
    }
    *out = key_session(openssl);
    *name = (const unsigned char *)key_name;
    *name_size = strlen(key_name);
    return *out != NULL;
}

static int find_key(SSL *openssl, const unsigned char *name, size_t name_size, SSL_SESSION **out)
{
    *out = NULL;
    if (!slice_is(slice_of(name, name_size), key_name)) {
        return 1; // a stranger: without certificates, the handshake fails
    }
    *out = key_session(openssl);
    return *out != NULL;
}

static void set_shared_key(struct tls_context *context, const uint8_t *shared_key)
{
    context->is_keyed = true;
    memcpy(context->shared_key, shared_key, tls_key_size);
    if (context->is_server) {
        SSL_CTX_set_psk_find_session_callback(context->openssl, find_key);
        return;
    }
    SSL_CTX_set_psk_use_session_callback(context->openssl, offer_key);
    // No authority is known: a server that shows a certificate instead of the key is refused.
    SSL_CTX_set_verify(context->openssl, SSL_VERIFY_PEER, NULL);
}

static enum status set_certificates(struct tls_context *context,
                                    const struct tls_peer_options *options,
                                    char error[tls_error_size])
{
    struct tls_server_options identity = {options->certificate, options->key};

    SSL_CTX_set_verify(context->openssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    enum status status = tls_load_identity(context->openssl, &identity, error);
    return status == STATUS_OK ? tls_load_trust(context->openssl, options->ca, error) : status;
}

enum status tls_peer_create(const struct tls_peer_options *options, struct tls_context **out,
                            char error[tls_error_size])
{
    struct tls_context *context = NULL;

    ASSERT((options->shared_key != NULL) ==
           (options->certificate == NULL && options->key == NULL && options->ca == NULL));
    error[0] = '\0';
    enum status status = tls_context_create(
        options->is_server ? TLS_server_method() : TLS_client_method(), &context);
    if (status != STATUS_OK) {
        snprintf(error, tls_error_size, "no memory");
        return status;
    }
    context->is_server = options->is_server;
    context->is_peer = true;
    SSL_CTX *openssl = context->openssl;
    ASSERT(SSL_CTX_set_min_proto_version(openssl, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(openssl, suite_name) == 1);
    SSL_CTX_set_options(openssl, SSL_OP_NO_TICKET);
    ASSERT(SSL_CTX_set_num_tickets(openssl, 0) == 1);
    if (options->shared_key != NULL) {
        set_shared_key(context, options->shared_key);
    } else {
        status = set_certificates(context, options, error);
    }
    if (status != STATUS_OK) {
        tls_context_destroy(&context);
        return status;
    }
    *out = context;
    return STATUS_OK;
}

static const char *key_words(int reason)
{
    switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        return "its shared key differs from ours";
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
        return "it refused our shared key";
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_CIPHER:
        return "it offered no shared key";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return "it shows a certificate instead of the shared key";
    default:
        return NULL;
    }
}

static const char *certificate_words(int reason)
{
    switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "it does not trust the authority of our certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "it says that our certificate has expired";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "it shows no certificate";
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return "it does not accept certificates; it may expect a shared key";
    default:
        return NULL;
    }
}

const char *tls_peer_words(int reason, bool is_keyed)
{
    return is_keyed ? key_words(reason) : certificate_words(reason);
}
