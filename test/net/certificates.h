// SPDX-License-Identifier: Apache-2.0
//
// certificates.h -- certificates and keys for one test program, in a directory that ends with it.
//
//     ca.pem           signs the next three
//     leaf.pem         localhost, 127.0.0.1, ::1
//     wildcard.pem     *.fleet.example
//     expired.pem      localhost, an hour ago
//     self_signed.pem  localhost
//     other_ca.pem     signed none of them
//     key.pem          of all of them; locked.pem: the same under a passphrase
//     other.pem        a key of none of them
//     nonsense.pem     neither
#pragma once

#include "test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/tls_test.XXXXXX";
static EVP_PKEY *key;
static EVP_PKEY *other_key;

// One of a few results, in use until the fifth next call.
static const char *file_in_dir(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % ARRAY_COUNT(paths)];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

static const char *const file_names[] = {
    "ca.pem",  "leaf.pem",  "expired.pem", "self_signed.pem", "other_ca.pem",
    "key.pem", "other.pem", "locked.pem",  "nonsense.pem",    "wildcard.pem",
};

struct certificate_plan {
    const char *file;
    const char *alternative; // subjectAltName; NULL for an authority
    long until_s;            // from now
    EVP_PKEY *key;
    X509 *issuer; // NULL: signs itself
};

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    ASSERT(extension != NULL);
    ASSERT(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static X509 *make_certificate(const struct certificate_plan *plan)
{
    static long serial;
    X509 *certificate = X509_new();
    ASSERT(certificate != NULL);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), plan->until_s);
    X509_set_pubkey(certificate, plan->key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)plan->file, -1, -1, 0);
    const X509 *issuer = plan->issuer != NULL ? plan->issuer : certificate;
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    add_extension(certificate, NID_basic_constraints,
                  plan->alternative == NULL ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (plan->alternative != NULL) {
        add_extension(certificate, NID_subject_alt_name, plan->alternative);
    }
    ASSERT(X509_sign(certificate, key, EVP_sha256()) > 0);

    FILE *file = fopen(file_in_dir(plan->file), "we");
    ASSERT(file != NULL && PEM_write_X509(file, certificate) == 1);
    ASSERT(fclose(file) == 0);
    return certificate;
}

static void write_key(const char *name, EVP_PKEY *pkey, const char *passphrase)
{
    FILE *file = fopen(file_in_dir(name), "we");
    ASSERT(file != NULL);
    int size = passphrase == NULL ? 0 : (int)strlen(passphrase);
    const EVP_CIPHER *cipher = passphrase == NULL ? NULL : EVP_aes_128_cbc();
    ASSERT(PEM_write_PKCS8PrivateKey(file, pkey, cipher, passphrase, size, NULL, NULL) == 1);
    ASSERT(fclose(file) == 0);
}

static pid_t maker; // a child that ends leaves them alone

static void remove_files(void)
{
    if (getpid() != maker) {
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(file_names); i++) {
        unlink(file_in_dir(file_names[i]));
    }
    rmdir(dir);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other_key);
}

static void make_certificates(void)
{
    ASSERT(mkdtemp(dir) != NULL);
    maker = getpid();
    key = EVP_EC_gen("P-256");
    other_key = EVP_EC_gen("P-256");
    ASSERT(key != NULL && other_key != NULL);

    X509 *ca =
        make_certificate(&(struct certificate_plan){.file = "ca.pem", .until_s = 3600, .key = key});
    struct certificate_plan plans[] = {
        {.file = "leaf.pem", .alternative = "DNS:localhost,IP:127.0.0.1,IP:::1"},
        {.file = "wildcard.pem", .alternative = "DNS:*.fleet.example"},
        {.file = "expired.pem", .alternative = "DNS:localhost", .until_s = -3600},
        {.file = "self_signed.pem", .alternative = "DNS:localhost"},
        {.file = "other_ca.pem"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(plans); i++) {
        plans[i].until_s = plans[i].until_s != 0 ? plans[i].until_s : 3600;
        plans[i].key = key;
        plans[i].issuer = i < 3 ? ca : NULL;
        X509_free(make_certificate(&plans[i]));
    }
    X509_free(ca);
    write_key("key.pem", key, NULL);
    write_key("other.pem", other_key, NULL);
    write_key("locked.pem", key, "secret");
    FILE *file = fopen(file_in_dir("nonsense.pem"), "we");
    ASSERT(file != NULL && fputs("no certificate at all\n", file) >= 0 && fclose(file) == 0);
    ASSERT(atexit(remove_files) == 0);
}
