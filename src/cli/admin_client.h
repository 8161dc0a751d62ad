// SPDX-License-Identifier: Apache-2.0
//
// admin_client.h -- how a command talks to the admin API of a running router: where it is, the
// token, TLS; and questions to it, each on a connection of its own (net/fetch.h).
//
//     static const struct config_option rows[] = {ADMIN_CLIENT_FLAGS("5s"), ...};
//     admin_client_check     errors of the command line
//     admin_client_open      reads the token, sets up TLS, looks the name up: the world's
//     admin_client_ask       again and again
//
// Failures are printed to standard error in the command's name.
//
// Threads: the one of its loop.  Memory: embedded, and what TLS needs.
#pragma once

#include "config/option/flags.h"
#include "drive/drive_endpoint.h"
#include "net/fetch.h"

enum {
    admin_path_size_max = 4352, // an id of 1,024 bytes, each spelt as %XX, and a path
    admin_why_size = 256,
};

struct admin_client_options {
    const char *url;
    const char *token;
    const char *token_file;
    const char *ca;
    double timeout;
    bool insecure;
};

// Rows for the field `admin` of OWNER, a struct admin_client_options.
#define ADMIN_CLIENT_FLAGS(wait)                                                                   \
    FLAG_ROW("admin", admin.url, any, .help = "The router's admin.listen, as http://host:port."),  \
        FLAG_ROW("token-file", admin.token_file, file, .help = "A file that holds its token."),    \
        FLAG_ROW("token", admin.token, any,                                                        \
                 .help = "The token itself; everyone who may list processes can read it."),        \
        FLAG_ROW("timeout", admin.timeout, seconds, .fallback = (wait), .low = "1ms",              \
                 .high = "1h", .help = "For a response."),                                         \
        FLAG_ROW("ca", admin.ca, file, .help = "Certificates to trust for https, PEM."),           \
        FLAG_ROW("insecure", admin.insecure, toggle, .help = "Do not verify TLS certificates.")

struct admin_client {
    const char *command;
    const struct admin_client_options *options;
    struct loop *loop;
    struct tls_context *tls;
    struct drive_endpoint endpoint;
    uint32_t address; // index into the addresses of the endpoint
    char authorization[config_secret_size_max + 16];
};

// Keeps the options.
bool admin_client_check(struct admin_client *client, const char *command,
                        const struct admin_client_options *options);

// Keeps the loop, and turns it while it looks the name up.
bool admin_client_open(struct admin_client *client, struct loop *loop);
void admin_client_close(struct admin_client *client);

// GETs a path, "/overview?since=5", or POSTs a body to it.  NULL: memory or descriptors are short.
struct fetch *admin_client_ask(const struct admin_client *client, const char *path,
                               struct slice body, size_t response_size_max, fetch_done_fn *done,
                               void *owner);

// The next question goes to the next address of the host, if it has several.
void admin_client_turn(struct admin_client *client);

// Why a response has no document: "Connection refused", "the router responds with 401: ...".
void admin_client_why(const struct fetch_result *result, char out[admin_why_size]);
