// SPDX-License-Identifier: Apache-2.0
//
// certifier.h -- checks with engines that our tokenizers and templates give the same tokens as
// theirs.
//
// Every backend that serves a model with a dialect is examined (dialect/certify.h) when it is first
// seen and whenever it comes back, one after the other, one question at a time.  A dialect is
// certified for the features on which all examined backends agree.  A backend that cannot be asked
// changes nothing; it is asked again after tokens.certify_interval.
//
//     backend a    plain system tools       certified: plain system tools
//     backend b    plain system             certified: plain system
//
// Threads: the keeper's.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct certify;
struct certify_question;
struct certifier;
struct config;
struct dialect_set;
struct fleet;
struct loop;

struct certifier_options {
    struct loop *loop;
    struct fleet *fleet;
    const struct config *config; // until certifier_set_config
    struct dialect_set *set;     // kept
    uint32_t thread;             // our number in the memo
    // For more detail than the log has: called after each case, and at the end of each examination.
    // May be NULL.
    void (*saw_case)(void *owner, const char *name, const char *verdict, const char *why);
    void (*saw_end)(void *owner, const struct certify *certify, const char *why);
    void *owner;
};

// NULL when memory is short.
struct certifier *certifier_create(const struct certifier_options *options);
void certifier_destroy(struct certifier **certifier);

void certifier_set_config(struct certifier *certifier, const struct config *config);
