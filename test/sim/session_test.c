// SPDX-License-Identifier: Apache-2.0

#include "sim/session.h"

#include "sim/mooncake.h"
#include "test.h"

TEST(each_prompt_extends_the_one_before_and_its_answer)
{
    struct script script;
    struct piece before[128];
    CHECK(script_init(&script, work_kind_find("chat"), 0, 1));
    for (uint64_t number = 0; number < 50; number++) {
        struct session *session = session_create(&script, number);
        uint32_t turns = 1;
        do {
            uint32_t count = session->piece_count + 1; // the answer too
            uint32_t tokens = session->prompt_tokens + session->output_tokens;
            CHECK_EQ(content_tokens(session->pieces, count), tokens);
            memcpy(before, session->pieces, count * sizeof(before[0]));
            if (!session_go_on(session)) {
                break;
            }
            turns++;
            CHECK_EQ(session->history_tokens, tokens);
            CHECK_EQ(session->piece_count, count + 1);
            CHECK_EQ(session->pieces[count].tokens, session->prompt_tokens - tokens);
            CHECK(memcmp(before, session->pieces, count * sizeof(before[0])) == 0);
        } while (turns < 100);
        CHECK_EQ(turns, session->turn_count);
        session_destroy(&session);
    }
    script_fini(&script);
}
