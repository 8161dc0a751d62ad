// SPDX-License-Identifier: Apache-2.0
//
// drive_endpoint.h -- where requests go: a URL, its addresses, and the model that is served there.
//
//     https://gpu.example:8443/openai/v1
//     ^tls    ^host       ^port ^base, without the /v1 that all paths begin with
//
// Threads: one owner.  Names are looked up and the endpoint is asked by turning the loop.
#pragma once

#include "base/address.h"
#include "drive/drive_text.h"
#include "net/dns.h"
#include "net/fetch.h"

struct loop;
struct tls_context;

enum { drive_text_max = 256, drive_error_size = 256, drive_path_max = 8192 };

struct drive_endpoint {
    char host[drive_text_max];
    char authority[drive_text_max + 16]; // as a Host field has it
    char base[drive_text_max];
    uint16_t port;
    bool tls;
    struct address addresses[dns_address_count_max];
    uint32_t address_count;
};

// NULL on success, else what is wrong with the URL.
const char *drive_endpoint_parse(const char *url, struct drive_endpoint *out);

// False, and the reason in `error`, when the host has no address.
bool drive_endpoint_resolve(struct drive_endpoint *endpoint, struct loop *loop,
                            char error[drive_error_size]);

// Appends the head of all requests to it, from the first line to before Content-Length.
// `authorization` may be NULL or empty.
void drive_endpoint_add_head(const struct drive_endpoint *endpoint, enum drive_api api,
                             const char *authorization, struct text *out);

// Starts a fetch of `options.path` below the base of the endpoint, from one of its addresses.
// `options.peer` is set here.  `authorization` may be NULL or empty.
struct fetch *drive_endpoint_fetch(const struct drive_endpoint *endpoint, uint32_t address,
                                   const char *authorization, struct fetch_options options);

// The same from the first address, and turns the loop until `done` was called.  False: nothing was
// sent, memory or descriptors are short.
bool drive_endpoint_get(const struct drive_endpoint *endpoint, const char *authorization,
                        struct fetch_options options);

// Asks for the endpoint's models and takes the first; `model` stays empty if the endpoint has no
// list.  False, and the reason in `error`, when the endpoint does not respond.  `tls` and
// `authorization` may be NULL.
bool drive_endpoint_ask(const struct drive_endpoint *endpoint, struct loop *loop,
                        struct tls_context *tls, const char *authorization,
                        char model[drive_text_max], char error[drive_error_size]);
