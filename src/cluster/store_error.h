// SPDX-License-Identifier: Apache-2.0
//
// store_error.h -- reads an error reply of a store, and says what mends it.
//
//     OOM LOADING BUSY TRYAGAIN CLUSTERDOWN MISCONF ...    the store needs time
//     READONLY MASTERDOWN                                  another server is the master
//     MOVED 3999 10.0.0.7:6379                             another server has our keys
//     NOAUTH WRONGPASS NOPERM                              a person has to change something
//     WRONGTYPE; an id that is not above the last one      a third party wrote to our key
//
// Pure.  The text of an error is from outside.
#pragma once

#include "base/slice.h"
#include "cluster/store_url.h"

enum { store_error_text_size = 160 };

enum store_remedy {
    STORE_WAIT,     // try again on the same connection
    STORE_RELOCATE, // ask for the master and connect to it
    STORE_MOVE,     // connect to `host`
    STORE_REFUSED,  // try again much later
    STORE_CLEAR,    // delete the key of the command
    STORE_UNKNOWN_COMMAND,
};

struct store_error {
    enum store_remedy remedy;
    struct store_host host;           // of STORE_MOVE; an empty name: the same host
    char text[store_error_text_size]; // for people: printable, cut, without our arguments
};

void store_error_read(struct slice message, struct store_error *out);
