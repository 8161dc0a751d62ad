// SPDX-License-Identifier: Apache-2.0

#include "sweep/sim_change.h"

#include "base/base.h"
#include "cli/child.h"
#include "test.h"

TEST(each_kind_is_read)
{
    struct lab_change change;
    CHECK(sim_change_read("join:2@60s", &change));
    CHECK_EQ(change.kind, LAB_JOIN);
    CHECK_EQ(change.number, 2);
    CHECK(change.at_s == 60);
    CHECK_STR(change.name, "join:2@60s");
    CHECK(sim_change_read("leave:1@1.5m", &change));
    CHECK_EQ(change.kind, LAB_LEAVE);
    CHECK(change.at_s == 90);
    CHECK(sim_change_read("slow:3:2.5x@500ms-36", &change));
    CHECK_EQ(change.kind, LAB_SLOW);
    CHECK_EQ(change.number, 3);
    CHECK(change.factor == 2.5 && change.at_s == 0.5 && change.until_s == 36);
    CHECK(sim_change_read("join:0@0", &change));
    CHECK_EQ(change.number, 0);
}

static int read_words(int word_count, char **words)
{
    struct lab_change change;
    return word_count == 1 && sim_change_read(words[0], &change) ? 0 : 2;
}

TEST(all_else_is_refused_with_the_reason)
{
    static const struct {
        const char *word;
        const char *says;
    } cases[] = {
        {"grow:2@60s", "write join:N@TIME"},
        {"join", "write join:N@TIME"},
        {"join:@60s", "write join:N@TIME"},
        {"join:2", "write join:N@TIME"},
        {"join:2@", "write join:N@TIME"},
        {"join:-2@60s", "\"-2\" is not a number"},
        {"join:5000@60s", "5000 is too large, the most is 4096"},
        {"join:2@60y", "\"60y\" is not a"},
        {"join:2@2000h", "2000h is too large, the most is 1000h"},
        {"leave:0@60s", "0 is too small, the least is 1"},
        {"slow:1@30s-36s", "write join:N@TIME"},
        {"slow:1:5@30s-36s", "write join:N@TIME"},
        {"slow:1:0x@30s-36s", "0 is too small, the least is 0.01"},
        {"slow:1:nanx@30s-36s", "\"nan\" is not a number"},
        {"slow:1:5x30s-36s", "write join:N@TIME"},
        {"slow:1:5x@30s", "write join:N@TIME"},
        {"slow:1:5x@36s-30s", "it ends before it begins"},
        {"slow:1:5x@30s-36s-40s", "is not a"},
        {"join:2@0000000000000000000000000000000000000000000000000000000000060s",
         "write join:N@TIME"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct child child;
        child_start(&child, read_words, (const char *const[]){cases[i].word, NULL});
        CHECK_EQ(child_finish(&child), 2);
        CHECK(strstr(child_text(child.err), cases[i].says) != NULL);
        CHECK(strstr(child_text(child.err), "warmpath sim: --change: ") != NULL);
        child_close(&child);
    }
}
