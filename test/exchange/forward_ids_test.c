// SPDX-License-Identifier: Apache-2.0

#include "dialect/tiny_dialect.h"
#include "proxy/rig.h"
#include "test.h"

static struct rig rig;
static struct tiny_set tiny;

static bool start(struct dialect_options options, const char *config)
{
    options.is_trusted = true;
    tiny_set_open(&tiny, tiny_dialect(options));
    return rig_start(&rig, &(struct rig_options){.config = config, .dialects = &tiny.set});
}

static bool stop(void)
{
    bool stopped = rig_stop(&rig);
    tiny_set_close(&tiny);
    return stopped;
}

static const char *request(const char *path, const char *body)
{
    static char space[2][4096];
    static unsigned next;
    char *text = space[next++ % 2];
    snprintf(text, sizeof(space[0]),
             "POST %s HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\ncontent-length: %zu\r\n\r\n%s",
             path, strlen(body), body);
    return text;
}

// Whether the backend gets `expected` for that body.
static bool becomes(const char *path, const char *body, const char *expected)
{
    struct peer *client = rig_connect(&rig);
    bool sent = peer_send(client, request(path, body));
    struct peer *backend = rig_accept(&rig, 0);
    bool good = sent && peer_expect(backend, request(path, expected)) &&
                peer_send(backend, RIG_OK) && peer_expect(client, RIG_OK);
    peer_close(client);
    peer_close(backend);
    return good;
}

#define CHAT_MEMBERS "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define CHAT_IDS "[256,117,115,101,114,10,72,105,257,10,256,97,115,115,105,115,116,97,110,116,10]"

TEST(a_completion_has_ids_for_its_text)
{
    CHECK(start((struct dialect_options){.forwards_ids = true}, ""));
    CHECK(becomes("/v1/completions", "{\"prompt\":\"ab\",\"n\":1}",
                  "{\"prompt\":[258,97,98],\"n\":1}"));
    CHECK(becomes("/v1/completions", "{ \"n\":1, \"prompt\": \"\\u0061\" }",
                  "{ \"n\":1, \"prompt\": [258,97] }"));
    CHECK(stop());
}

TEST(sglang_gets_ids_beside_the_messages_and_in_place_of_a_text)
{
    CHECK(start((struct dialect_options){.engine = DIALECT_SGLANG, .forwards_ids = true}, ""));
    CHECK(becomes("/v1/chat/completions", "{" CHAT_MEMBERS "}",
                  "{\"input_ids\":" CHAT_IDS "," CHAT_MEMBERS "}"));
    CHECK(becomes("/generate", "{\"text\":\"ab\"}", "{\"input_ids\":[258,97,98],\"text\":null}"));
    CHECK(stop());
}

TEST(tensorrt_gets_ids_under_its_own_name)
{
    CHECK(start((struct dialect_options){.engine = DIALECT_TRTLLM, .forwards_ids = true}, ""));
    CHECK(becomes("/v1/chat/completions", "{" CHAT_MEMBERS "}",
                  "{\"prompt_token_ids\":" CHAT_IDS "," CHAT_MEMBERS "}"));
    CHECK(stop());
}

TEST(a_body_without_a_place_for_ids_passes_unchanged)
{
    static const char *const bodies[] = {
        "{\"prompt\":[1,2,3]}",
        "{\"prompt\":[\"a\",\"b\"]}",
        "{\"prompt\":\"a\",\"suffix\":\"b\"}",
        "not json",
    };
    CHECK(start((struct dialect_options){.forwards_ids = true}, ""));
    CHECK(becomes("/v1/chat/completions", "{" CHAT_MEMBERS "}", "{" CHAT_MEMBERS "}"));
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        CHECK(becomes("/v1/completions", bodies[i], bodies[i]));
    }
    CHECK(stop());
}

TEST(without_the_option_nothing_is_changed)
{
    CHECK(start((struct dialect_options){0}, ""));
    CHECK(becomes("/v1/completions", "{\"prompt\":\"ab\"}", "{\"prompt\":\"ab\"}"));
    CHECK(stop());
}

TEST(policies_that_do_not_look_at_prompts_forward_ids_as_well)
{
    CHECK(start((struct dialect_options){.forwards_ids = true}, "policy: round_robin\n"));
    CHECK(becomes("/v1/completions", "{\"prompt\":\"ab\"}", "{\"prompt\":[258,97,98]}"));
    CHECK(stop());
}

TEST(usage_is_asked_for_in_the_new_body)
{
    CHECK(start((struct dialect_options){.forwards_ids = true}, "policy: warm\nask_usage: true\n"));
    CHECK(becomes("/v1/completions", "{\"prompt\":\"ab\",\"stream\":true}",
                  "{\"stream_options\":{\"include_usage\":true},\"prompt\":[258,97,98],"
                  "\"stream\":true}"));
    CHECK(becomes("/v1/completions",
                  "{\"prompt\":\"ab\",\"stream\":true,\"stream_options\":{\"x\":1}}",
                  "{\"prompt\":[258,97,98],\"stream\":true,\"stream_options\":"
                  "{\"include_usage\":true,\"x\":1}}"));
    CHECK(stop());
}

TEST(another_backend_gets_the_same_ids)
{
    tiny_set_open(&tiny,
                  tiny_dialect((struct dialect_options){.is_trusted = true, .forwards_ids = true}));
    CHECK(rig_start(&rig, &(struct rig_options){.config = "policy: round_robin\n",
                                                .backend_count = 2,
                                                .dialects = &tiny.set}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, request("/v1/completions", "{\"prompt\":\"ab\"}")));
    uint32_t first = 0;
    struct peer *backend = rig_accept_any(&rig, &first);
    const char *expected = request("/v1/completions", "{\"prompt\":[258,97,98]}");
    CHECK(peer_expect(backend, expected));
    peer_close(backend);
    backend = rig_accept(&rig, 1 - first);
    CHECK(peer_expect(backend, request("/v1/completions", "{\"prompt\":[258,97,98]}")));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(stop());
}

// Its chats keep their messages beside the ids, which are not to be put in twice.
TEST(another_backend_gets_the_same_chat)
{
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){
                             .engine = DIALECT_SGLANG, .is_trusted = true, .forwards_ids = true}));
    CHECK(rig_start(
        &rig, &(struct rig_options){.config = "", .backend_count = 2, .dialects = &tiny.set}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, request("/v1/chat/completions", "{" CHAT_MEMBERS "}")));
    const char *expected =
        request("/v1/chat/completions", "{\"input_ids\":" CHAT_IDS "," CHAT_MEMBERS "}");
    uint32_t first = 0;
    struct peer *backend = rig_accept_any(&rig, &first);
    CHECK(peer_expect(backend, expected));
    peer_close(backend);
    backend = rig_accept(&rig, 1 - first);
    CHECK(peer_expect(backend, expected));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(stop());
}

TEST(a_chunked_body_keeps_its_framing)
{
    CHECK(start((struct dialect_options){.forwards_ids = true}, ""));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "POST /v1/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                            "transfer-encoding: chunked\r\n\r\n"
                            "f\r\n{\"prompt\":\"ab\"}\r\n0\r\nx-t: 1\r\n\r\n"));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, "POST /v1/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                               "transfer-encoding: chunked\r\n\r\n"
                               "16\r\n{\"prompt\":[258,97,98]}\r\n0\r\nx-t: 1\r\n\r\n"));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(stop());
}
