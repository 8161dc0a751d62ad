// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/session.h"

#include "sim/workload/mooncake.h"
#include "test.h"

#include <math.h>

static bool is_same(const struct session *a, const struct session *b)
{
    return a->turn_count == b->turn_count && a->id == b->id && a->piece_count == b->piece_count &&
           a->prompt_tokens == b->prompt_tokens && a->output_tokens == b->output_tokens &&
           memcmp(a->pieces, b->pieces, (a->piece_count + 1) * sizeof(a->pieces[0])) == 0;
}

// Whether a piece of one is in the other.
static bool has_in_common(const struct session *a, const struct session *b)
{
    for (uint32_t i = 0; i <= a->piece_count; i++) {
        for (uint32_t k = 0; k <= b->piece_count; k++) {
            if (a->pieces[i].id == b->pieces[k].id) {
                return true;
            }
        }
    }
    return false;
}

// Whether its prompt is `count` pieces that it had, answer included, and one more.
static bool is_longer(const struct session *session, const struct piece *before, uint32_t count)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        tokens += before[i].tokens;
    }
    return session->piece_count == count + 1 && session->history_tokens == tokens &&
           session->prompt_tokens == tokens + session->pieces[count].tokens &&
           session->pieces[count + 1].tokens == session->output_tokens &&
           memcmp(before, session->pieces, count * sizeof(before[0])) == 0;
}

static void check_turns(const char *kind, uint64_t number)
{
    struct script script;
    struct piece before[128];
    script_init(&script, work_kind_find(kind), 0, 1);
    struct session *session = session_create(&script, number);
    uint32_t count = session->piece_count + 1;
    uint32_t turns = 1;

    CHECK_EQ(session->history_tokens, 0);
    memcpy(before, session->pieces, count * sizeof(before[0]));
    for (; session_go_on(session); turns++) {
        CHECK_EQ(session->turn, turns);
        CHECK(is_longer(session, before, count));
        count = session->piece_count + 1;
        memcpy(before, session->pieces, count * sizeof(before[0]));
    }
    CHECK_EQ(turns, session->turn_count);
    session_destroy(&session);
    script_fini(&script);
}

TEST(each_prompt_extends_the_one_before_and_its_response)
{
    for (uint64_t number = 0; number < 50; number++) {
        check_turns("chat", number);
        check_turns("agent", number);
    }
}

TEST(a_session_is_a_function_of_seed_and_number)
{
    struct script one;
    struct script same;
    struct script other;
    script_init(&one, work_kind_find("unique"), 0, 1);
    script_init(&same, work_kind_find("unique"), 0, 1);
    script_init(&other, work_kind_find("unique"), 0, 2);
    for (uint64_t number = 0; number < 100; number++) {
        struct session *a = session_create(&one, number);
        struct session *b = session_create(&same, number);
        struct session *c = session_create(&other, number);
        struct session *d = session_create(&one, number + 1);
        CHECK(is_same(a, b));
        CHECK(!has_in_common(a, c));
        CHECK(!has_in_common(a, d));
        session_destroy(&a);
        session_destroy(&b);
        session_destroy(&c);
        session_destroy(&d);
    }
    script_fini(&one);
    script_fini(&same);
    script_fini(&other);
}

TEST(the_prompt_of_a_group_is_shared_and_the_rest_is_not)
{
    struct script script;
    uint32_t together = 0;
    script_init(&script, work_kind_find("stress"), 0, 1);
    for (uint64_t i = 0; i < 1000; i++) {
        struct session *one = session_create(&script, 2 * i);
        struct session *other = session_create(&script, 2 * i + 1);
        bool is_together = one->pieces[0].id == other->pieces[0].id;
        together += is_together ? 1 : 0;
        CHECK_EQ(one->piece_count, 2);
        CHECK_EQ(one->id, 0); // a single request belongs to no conversation
        CHECK(!is_together || one->pieces[0].tokens == other->pieces[0].tokens);
        CHECK(one->pieces[1].id != other->pieces[1].id);
        CHECK(one->pieces[2].id != other->pieces[2].id);
        session_destroy(&one);
        session_destroy(&other);
    }
    CHECK(together > 50); // of eleven groups
    script_fini(&script);
}

static double shared_part(const char *kind, double share)
{
    struct script script;
    double shared = 0;
    double all = 0;
    script_init(&script, work_kind_find(kind), share, 1);
    for (uint64_t number = 0; number < 5000; number++) {
        struct session *session = session_create(&script, number);
        shared += session->pieces[0].tokens;
        all += session->prompt_tokens;
        session_destroy(&session);
    }
    script_fini(&script);
    return shared / all;
}

TEST(the_share_is_the_common_part_of_each_prompt)
{
    static const double shares[] = {0.5, 0.7, 0.9};
    for (size_t i = 0; i < ARRAY_COUNT(shares); i++) {
        CHECK(fabs(shared_part("sharing", shares[i]) - shares[i]) < 0.01);
        CHECK(fabs(shared_part("stress", shares[i]) - shares[i]) < 0.01);
        CHECK(fabs(shared_part("b2b", shares[i]) - shares[i]) < 0.01);
    }
    // The length of the groups' prompts is drawn, so it is not quite what the kind says.
    CHECK(fabs(shared_part("sharing", 0) - 0.7) < 0.05);
}

// Four ids of 512 tokens each, of a prompt of so many.
static struct session *session_of(uint32_t input_tokens, uint32_t copy)
{
    static uint64_t ids[] = {99, 1, 2, 3, 4};
    struct mooncake_request request = {.session = 6,
                                       .turn = 2,
                                       .input_tokens = input_tokens,
                                       .output_tokens = 50,
                                       .block_tokens = 512,
                                       .first = 1,
                                       .id_count = 4};
    struct mooncake_trace trace = {
        .requests = &request, .request_count = 1, .ids = ids, .id_count = 5};
    return session_of_trace(&trace, 0, copy);
}

TEST(a_request_of_a_trace_has_a_piece_for_each_block)
{
    struct session *session = session_of(3 * 512 + 7, 0);
    CHECK_EQ(session->piece_count, 4);
    CHECK_EQ(session->pieces[2].tokens, 512);
    CHECK_EQ(session->pieces[3].tokens, 7);
    CHECK_EQ(session->prompt_tokens, 3 * 512 + 7);
    CHECK_EQ(session->pieces[4].tokens, 50);
    CHECK_EQ(session->output_tokens, 50);
    CHECK_EQ(session->id, 6);
    CHECK_EQ(session->turn, 2);
    CHECK(!session_go_on(session));
    session_destroy(&session);
}

TEST(prompts_of_a_trace_begin_alike_where_their_ids_do)
{
    struct session *one = session_of(3 * 512 + 7, 0);
    struct session *other = session_of(4 * 512, 0);
    uint64_t a[128];
    uint64_t b[128];
    uint32_t count = content_keys(one->pieces, one->piece_count, 16, a, 128);
    CHECK_EQ(count, 96); // the 7 tokens make no block
    CHECK_EQ(content_keys(other->pieces, other->piece_count, 16, b, 128), 128);
    CHECK(memcmp(a, b, count * sizeof(a[0])) == 0);
    session_destroy(&one);
    session_destroy(&other);
}

TEST(tokens_without_an_id_are_unique_to_the_request)
{
    struct session *one = session_of(5 * 512, 0);
    CHECK_EQ(one->piece_count, 5);
    CHECK_EQ(one->pieces[4].tokens, 512);
    CHECK_EQ(one->prompt_tokens, 5 * 512);
    for (int i = 0; i < 4; i++) {
        CHECK(one->pieces[i].id != one->pieces[4].id);
    }
    session_destroy(&one);
}

TEST(ids_behind_the_end_are_left_out_and_no_prompt_is_empty)
{
    struct session *two = session_of(600, 0);
    struct session *none = session_of(0, 0);
    CHECK_EQ(two->piece_count, 2);
    CHECK_EQ(two->prompt_tokens, 600);
    CHECK_EQ(none->piece_count, 1);
    CHECK_EQ(none->prompt_tokens, 1);
    session_destroy(&two);
    session_destroy(&none);
}

TEST(copies_of_a_request_have_nothing_in_common)
{
    struct session *first = session_of(5 * 512, 0);
    for (uint32_t i = 1; i < 4; i++) {
        struct session *copy = session_of(5 * 512, i);
        struct session *next = session_of(5 * 512, i + 1);
        CHECK(!has_in_common(first, copy));
        CHECK(!has_in_common(copy, next));
        CHECK(first->id != copy->id && copy->id != next->id);
        session_destroy(&copy);
        session_destroy(&next);
    }
    session_destroy(&first);
}
