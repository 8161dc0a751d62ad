// SPDX-License-Identifier: Apache-2.0

#include "net/seal.h"

#include "base/base.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>

enum {
    key_size = 32,
    nonce_size = 12, // NIST SP 800-38D, section 5.2.1.1: 96 bits need no further hashing
    message_size_max = 1 << 20,
};

struct seal {
    EVP_CIPHER_CTX *locker;
    EVP_CIPHER_CTX *unlocker;
};

static bool seal_derive_key(const uint8_t *secret, struct slice label, uint8_t key[key_size])
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *derivation = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    char digest[] = "SHA256";
    uint8_t secret_copy[seal_secret_size]; // OpenSSL's parameters are not const
    uint8_t label_copy[256];
    bool is_good = false;

    ASSERT(label.size > 0 && label.size <= sizeof(label_copy));
    memcpy(secret_copy, secret, sizeof(secret_copy));
    memcpy(label_copy, label.bytes, label.size);
    if (derivation != NULL) {
        OSSL_PARAM parameters[] = {
            OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret_copy, sizeof(secret_copy)),
            OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label_copy, label.size),
            OSSL_PARAM_construct_end(),
        };
        is_good = EVP_KDF_derive(derivation, key, key_size, parameters) == 1;
    }
    OPENSSL_cleanse(secret_copy, sizeof(secret_copy));
    EVP_KDF_CTX_free(derivation);
    EVP_KDF_free(kdf);
    return is_good;
}

enum status seal_secret_of(struct slice text, uint8_t secret[seal_secret_size])
{
    unsigned size = 0;
    bool is_good = EVP_Digest(text.bytes, text.size, secret, &size, EVP_sha256(), NULL) == 1 &&
                   size == seal_secret_size;
    if (!is_good) {
        ERR_clear_error();
    }
    return is_good ? STATUS_OK : STATUS_EXHAUSTED;
}

enum status seal_create(const uint8_t secret[seal_secret_size], struct slice label,
                        struct seal **out)
{
    uint8_t key[key_size];
    bool is_good = false;
    struct seal *seal = calloc(1, sizeof(*seal));
    if (seal == NULL) {
        return STATUS_EXHAUSTED;
    }
    seal->locker = EVP_CIPHER_CTX_new();
    seal->unlocker = EVP_CIPHER_CTX_new();
    if (seal->locker != NULL && seal->unlocker != NULL && seal_derive_key(secret, label, key)) {
        is_good = EVP_EncryptInit_ex(seal->locker, EVP_aes_256_gcm(), NULL, key, NULL) == 1 &&
                  EVP_DecryptInit_ex(seal->unlocker, EVP_aes_256_gcm(), NULL, key, NULL) == 1;
    }
    OPENSSL_cleanse(key, sizeof(key));
    if (!is_good) {
        ERR_clear_error(); // tls.c reads the queue of this thread
        seal_destroy(&seal);
        return STATUS_EXHAUSTED;
    }
    *out = seal;
    return STATUS_OK;
}

void seal_destroy(struct seal **seal_ptr)
{
    struct seal *seal = *seal_ptr;
    *seal_ptr = NULL;

    if (seal != NULL) {
        EVP_CIPHER_CTX_free(seal->locker);
        EVP_CIPHER_CTX_free(seal->unlocker);
        free(seal);
    }
}

static void seal_write_nonce(uint64_t number, uint8_t nonce[nonce_size])
{
    memset(nonce, 0, nonce_size);
    for (int i = 0; i < 8; i++) {
        nonce[nonce_size - 1 - i] = (uint8_t)(number >> (8 * i));
    }
}

enum status seal_lock(struct seal *seal, uint64_t number, struct slice about, struct slice plain,
                      uint8_t *out)
{
    uint8_t nonce[nonce_size];
    uint8_t rest[seal_tag_size]; // GCM leaves nothing for the end, but the call wants room
    int size = 0;
    int about_size = 0;
    int rest_size = 0;

    ASSERT(plain.size <= message_size_max && about.size <= message_size_max);
    seal_write_nonce(number, nonce);
    bool is_good = EVP_EncryptInit_ex(seal->locker, NULL, NULL, NULL, nonce) == 1;
    if (is_good && about.size > 0) {
        is_good =
            EVP_EncryptUpdate(seal->locker, NULL, &about_size, about.bytes, (int)about.size) == 1;
    }
    if (is_good && plain.size > 0) {
        is_good = EVP_EncryptUpdate(seal->locker, out, &size, plain.bytes, (int)plain.size) == 1;
    }
    is_good = is_good && EVP_EncryptFinal_ex(seal->locker, rest, &rest_size) == 1 &&
              EVP_CIPHER_CTX_ctrl(seal->locker, EVP_CTRL_GCM_GET_TAG, seal_tag_size,
                                  out + plain.size) == 1;
    if (!is_good) {
        ERR_clear_error();
        return STATUS_EXHAUSTED;
    }
    return STATUS_OK;
}

enum status seal_unlock(struct seal *seal, uint64_t number, struct slice about, struct slice sealed,
                        uint8_t *out)
{
    uint8_t nonce[nonce_size];
    uint8_t tag[seal_tag_size];
    uint8_t rest[seal_tag_size];
    int size = 0;
    int about_size = 0;
    int rest_size = 0;

    if (sealed.size < seal_tag_size || sealed.size > message_size_max) {
        return STATUS_MALFORMED;
    }
    size_t plain_size = sealed.size - seal_tag_size;
    memcpy(tag, sealed.bytes + plain_size, sizeof(tag));
    seal_write_nonce(number, nonce);
    bool is_good = EVP_DecryptInit_ex(seal->unlocker, NULL, NULL, NULL, nonce) == 1;
    if (is_good && about.size > 0) {
        is_good =
            EVP_DecryptUpdate(seal->unlocker, NULL, &about_size, about.bytes, (int)about.size) == 1;
    }
    if (is_good && plain_size > 0) {
        is_good = EVP_DecryptUpdate(seal->unlocker, out, &size, sealed.bytes, (int)plain_size) == 1;
    }
    is_good = is_good &&
              EVP_CIPHER_CTX_ctrl(seal->unlocker, EVP_CTRL_GCM_SET_TAG, seal_tag_size, tag) == 1 &&
              EVP_DecryptFinal_ex(seal->unlocker, rest, &rest_size) == 1;
    if (!is_good) {
        ERR_clear_error();
        OPENSSL_cleanse(out, plain_size);
        return STATUS_MALFORMED;
    }
    return STATUS_OK;
}
