// SPDX-License-Identifier: Apache-2.0
//
// store_url.h -- reads the URL of a store.
//
//     redis://user:password@host:6379/0                        plain; rediss: TLS
//     redis://:password@host                                   the default user, port and database
//     redis+sentinel://user:password@h1:26379,h2/mymaster/0    Sentinels; rediss+sentinel: TLS
//
// The user and the password may have %XX for any byte.  An IPv6 address is in brackets.  Behind
// Sentinels, user and password are those of the store; a Sentinel is shown them only if it asks.
//
// A URL is text from the configuration: an error says what is wrong with it, and never repeats the
// password.  Pure.  Memory: none but the struct.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    store_url_size_max = 4096,
    store_host_count_max = 8,
    store_host_size = 254,  // RFC 1035, section 2.3.4: 253 characters; with the NUL
    store_login_size = 513, // user or password, with the NUL
    store_master_size = 128,
    store_url_error_size = 256,
    store_name_size = 512,
    store_database_max = 65535,
};

struct store_host {
    char name[store_host_size]; // without brackets
    uint16_t port;
};

struct store_url {
    bool is_tls;
    bool is_sentinel; // the hosts are Sentinels, which know the host of `master`
    struct store_host hosts[store_host_count_max];
    uint32_t host_count;
    char user[store_login_size]; // empty: the default user
    char password[store_login_size];
    bool has_password;
    char master[store_master_size]; // only if is_sentinel
    uint32_t database;
};

// MALFORMED: `error` says why.
enum status store_url_read(const char *text, struct store_url *out,
                           char error[store_url_error_size]);

// The URL without user and password, for log lines; cut with "..." if it is longer than the space.
void store_url_name(const struct store_url *url, char out[store_name_size]);
