// SPDX-License-Identifier: Apache-2.0
//
// option_kind.h -- the kinds of values: how each is spelt, checked and stored.
//
// The file and the command line give text; a kind turns it into the value of a field, or says why
// not.  Quotes in the file change nothing: `8` and `"8"` are the same text, and
// what it means is decided by the row that it is for.
#pragma once

#include "base/text.h"

struct config_endpoint;
struct config_option;
struct kind_number;

struct config_kind {
    const char *name;    // in the manual
    const char *word;    // stands for the value in --help
    const char *accepts; // a phrase for the manual and for messages: "write ..."

    // Stores what `text` says in `field`, whose type belongs to the kind; false: `why` got the
    // reason, fit to follow "name: ".  A field that is a string keeps `text`.
    bool (*read)(const struct config_option *option, const char *text, void *field,
                 struct text *why);

    const struct kind_number *number; // NULL: the field is not a number with a unit
    const char *marks;                // of a name: the other characters that it may have
    // Of a host and port: says why they are wrong, or NULL.
    const char *(*split)(struct slice text, struct config_endpoint *out);
};

// The order of the manual.
#define CONFIG_KIND_MAP(X)                                                                         \
    X(toggle)   /* bool */                                                                         \
    X(count)    /* uint32_t */                                                                     \
    X(size)     /* uint32_t or uint64_t, bytes */                                                  \
    X(duration) /* uint32_t, milliseconds */                                                       \
    X(offset)   /* int32_t, seconds */                                                             \
    X(choice)   /* an enum: the index of the word */                                               \
    X(policy)   /* the rest: const char * */                                                       \
    X(url)                                                                                         \
    X(collector)                                                                                   \
    X(address)                                                                                     \
    X(server)                                                                                      \
    X(peer)                                                                                        \
    X(endpoint)                                                                                    \
    X(endpoint_or_none)                                                                            \
    X(event_source)                                                                                \
    X(path)                                                                                        \
    X(header)                                                                                      \
    X(retry_status)                                                                                \
    X(name)                                                                                        \
    X(text)                                                                                        \
    X(file)                                                                                        \
    X(secret)                                                                                      \
    X(secret_file) /* read() keeps the path; the binder puts the content in its place */

#define X(name) extern const struct config_kind config_kind_##name;
CONFIG_KIND_MAP(X)
#undef X

// Kinds that only flags of commands have, and no key of the file.
extern const struct config_kind config_kind_amount;       // uint32_t, with k, m or g
extern const struct config_kind config_kind_real;         // double, with k, m or g
extern const struct config_kind config_kind_whole;        // double without a fraction
extern const struct config_kind config_kind_seconds;      // double
extern const struct config_kind config_kind_milliseconds; // uint32_t
extern const struct config_kind config_kind_any;          // const char *, even if empty

// In the order of the map; NULL past the last.
const struct config_kind *config_kind_at(uint32_t index);

enum { config_secret_size_max = 4096 };

// True when `secret` can stand in a header: visible ASCII, between 1 and config_secret_size_max.
bool config_secret_is_sound(struct slice secret);

// Appends `text` in quotes, for a message: at most 48 bytes of it, unprintable ones as `?`.
void config_quote(struct text *out, const char *text);
