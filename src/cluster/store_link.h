// SPDX-License-Identifier: Apache-2.0
//
// store_link.h -- the link through Redis or Valkey: streams of frames, and a hash of hellos.
//
//     router A                         store                            router B
//     writer --HSET, XADD-->  m: {A: hello 17, B: hello 9}    <--HSET, XADD-- writer
//            <--HGETALL-----                                  ---HGETALL-->
//     reader --XREAD BLOCK->  d:A: 18 19 20    d:B: 10 11     <-XREAD BLOCK-- reader
//            <--entries-----  d:A:B: 21                       ---entries--->
//
// Two connections, since XREAD blocks one of them.  Every 250 ms the writer puts a hello with a
// growing counter and reads those of the others (store_members.h).  A frame to all is an entry of
// our stream; a frame to one router is an entry of a stream for it alone.  Streams are cut at about
// 16 MiB to all, 4 MiB to one, and 8192 entries; a reader that falls further behind loses frames.
// Every key expires a minute after the last write, so a dead cluster leaves nothing.  With a secret
// all values are sealed (store_envelope.h).
//
// Commands: HELLO or AUTH, SELECT, HSET, HGETALL, HDEL, XADD, XREAD, PEXPIRE, DEL.  No scripts,
// transactions or consumer groups, so Redis 5 and later and Valkey do.
//
// Trouble, and how the link acts:
//
//     refused, reset, no reply for a second     connect again after 50 ms to 1 s
//     OOM, LOADING, BUSY and unknown errors     the same connections, one probe each second
//     READONLY, MASTERDOWN                      connect again, after asking the Sentinels if any
//     MOVED                                     connect there
//     NOAUTH, WRONGPASS, NOPERM                 connect again after 5 s: people mend these
//     a key of another type, a foreign entry    the key is deleted
//     the store was emptied                     the next hellos and frames make the keys again
//     a reply beyond the bounds                 connect again and delete the key that it came from
//
// While the store does not obey, frames are dropped and counted.  After each connection the link
// tries every command that it needs before it counts as up, so a user without a permission causes
// one log line, not two for each attempt.
//
// Threads: belongs to the thread of its loop.  Memory: out_size_max + 1 MiB, taken by open;
// replies, at most a few MiB, are allocated by hiredis while they are read.
#pragma once

#include "cluster/link.h"

struct store_options {
    struct link_options link;
    const char *url;         // see store_url.h
    const char *ca;          // PEM file of authorities for TLS; NULL: the system's
    bool verify;             // the server's certificate
    const char *dns_servers; // as those of dns_options; NULL: the system's
    const char *cluster;     // its name: 1 to 64 letters, digits, '.', '_' and '-'
    const uint8_t *secret;   // link_secret_size bytes, copied; NULL: values are plain
};

// Connects later, from the loop: an absent store is not an error.  MALFORMED, IO: the URL, the name
// or the CA file, `error` says why.  EXHAUSTED: no memory.
enum status store_link_open(const struct store_options *options, struct link **out,
                            char error[link_error_size]);

// Values in the store that no router of this cluster wrote, or that were repeated.
uint64_t store_link_skipped(const struct link *link);
