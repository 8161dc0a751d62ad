// SPDX-License-Identifier: Apache-2.0
//
// admin_client.h -- how a command talks to the admin API of a running router: where it is, the
// token, TLS; and questions to it, each on a connection of its own (net/fetch.h).
//
//     const struct flag flags[] = {ADMIN_CLIENT_FLAGS(options.admin), {"once", ...}};
//     admin_client_check     what is wrong with them: the command line's fault
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
    admin_token_size_max = 4096,
    admin_path_size_max = 4352, // an id of 1,024 bytes, each spelt as %XX, and a path
    admin_why_size = 256,
};

struct admin_client_options {
    const char *url;
    const char *token;
    const char *token_file;
    const char *ca;
    double timeout_s;
    bool insecure;
};

#define ADMIN_CLIENT_FLAGS(options)                                                                \
    {"admin", FLAG_TEXT, &(options).url, "URL",                                                    \
     "The router's admin.listen, as http://host:port."},                                           \
        {"token-file", FLAG_TEXT, &(options).token_file, "FILE", "A file that holds its token."},  \
        {"token", FLAG_TEXT, &(options).token, "TOKEN",                                            \
         "The token itself, for anyone to see who may list processes."},                           \
        {"timeout", FLAG_DURATION, &(options).timeout_s, "TIME", "For an answer."},                \
        {"ca", FLAG_TEXT, &(options).ca, "FILE", "Who vouches for a router with https; PEM."},     \
    {                                                                                              \
        "insecure", FLAG_SWITCH, &(options).insecure, "", "Nobody has to vouch for it."            \
    }

struct admin_client {
    const char *command;
    const struct admin_client_options *options;
    struct loop *loop;
    struct tls_context *tls;
    struct drive_endpoint endpoint;
    uint32_t address; // of those that the endpoint has
    char authorization[admin_token_size_max + 16];
};

// Keeps the options.
bool admin_client_check(struct admin_client *client, const char *command,
                        const struct admin_client_options *options);

// Keeps the loop, and turns it while it looks the name up.
bool admin_client_open(struct admin_client *client, struct loop *loop);
void admin_client_close(struct admin_client *client);

// GETs a path, "/overview?since=5", or POSTs a body to it.  NULL: memory or descriptors are short.
struct fetch *admin_client_ask(const struct admin_client *client, const char *path,
                               struct slice body, size_t answer_size_max, fetch_done_fn *done,
                               void *owner);

// The next question goes to the next address of the host, if it has several.
void admin_client_turn(struct admin_client *client);

// The reason why a response has no document: "Connection refused", "the router answers 401: ...".
void admin_client_why(const struct fetch_result *result, char out[admin_why_size]);
