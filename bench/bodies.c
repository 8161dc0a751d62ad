// SPDX-License-Identifier: Apache-2.0

#include "bodies.h"

#include "base/base.h"
#include "base/rng.h"

static void add_one_of(struct text *text, struct rng *rng, const char *const *pieces,
                       uint32_t count)
{
    text_add_str(text, pieces[rng_below(rng, count)]);
}

static void add_english(struct text *text, struct rng *rng, size_t size)
{
    static const char *const words[] = {
        "the ",     "a ",       "of ",     "and ",      "to ",       "in ",        "is ",
        "it ",      "that ",    "for ",    "request ",  "server ",   "when ",      "should ",
        "would ",   "please ",  "explain", " how ",     "you ",      "can ",       "which ",
        "because ", "between ", "memory ", "function ", "returns ",  "different ", "tests ",
        "before ",  "after ",   "value, ", "result. ",  "example: ", "it's ",      "(see below) ",
        "first ",   "second ",  "answer ", "question ", "user. ",    "model ",     "cache ",
    };
    for (size_t end = text->size + size; text->size < end && !text->overflow;) {
        add_one_of(text, rng, words, ARRAY_COUNT(words));
        if (rng_below(rng, 60) == 0) {
            text_add_str(text, "\\n\\n");
        }
    }
}

// Lines of 5 to 60 characters, about every second one with a string in it.
static void add_code(struct text *text, struct rng *rng, size_t size)
{
    static const char *const lines[] = {
        "def load(path, limit=None):\\n",
        "return items\\n",
        "for index, item in enumerate(items):\\n",
        "if item.name == \\\"default\\\":\\n",
        "raise ValueError(f\\\"unknown option {name!r}\\\")\\n",
        "self.items[index] = value\\n",
        "print(\\\"done\\\", len(items))\\n",
        "\\n",
        "# The order matters here, see above.\\n",
        "result = client.post(url, json={\\\"id\\\": item.id, \\\"kind\\\": kind})\\n",
        "else:\\n",
        "static const char *const names[] = {\\\"a\\\", \\\"b\\\"};\\n",
        "}\\n",
        "assert count <= limit, \\\"too many\\\"\\n",
        "path = re.sub(r'\\\\s+', ' ', path)\\n",
        "\\treturn nil, fmt.Errorf(\\\"open %s: %w\\\", name, err)\\n",
    };
    for (size_t end = text->size + size; text->size < end && !text->overflow;) {
        for (uint32_t depth = rng_below(rng, 4); depth > 0; depth--) {
            text_add_str(text, "    ");
        }
        add_one_of(text, rng, lines, ARRAY_COUNT(lines));
    }
}

// Characters from the block where nearly all of Chinese lies, with its comma, its stop and, now and
// then, a name in Latin letters.
static uint32_t chinese_character(struct rng *rng)
{
    uint32_t kind = rng_below(rng, 12);
    return kind == 0 ? 0xff0c : kind == 1 ? 0x3002 : 0x4e00 + rng_below(rng, 0x51a6);
}

static void add_chinese(struct text *text, struct rng *rng, size_t size)
{
    static const char *const names[] = {"GPU", "Python 3", "API", "vLLM", "2024"};
    for (size_t end = text->size + size; text->size < end && !text->overflow;) {
        uint32_t character = chinese_character(rng);
        uint8_t bytes[3] = {(uint8_t)(0xe0 | character >> 12),
                            (uint8_t)(0x80 | (character >> 6 & 0x3f)),
                            (uint8_t)(0x80 | (character & 0x3f))};
        text_add(text, slice_of(bytes, sizeof(bytes)));
        if (rng_below(rng, 40) == 0) {
            add_one_of(text, rng, names, ARRAY_COUNT(names));
        }
    }
}

static void add_escaped(struct text *text, struct rng *rng, size_t size)
{
    for (size_t end = text->size + size; text->size < end && !text->overflow;) {
        text_add_format(text, "\\u%04x", chinese_character(rng));
        if (rng_below(rng, 40) == 0) {
            text_add_str(text, "GPU");
        }
    }
}

static void add_base64(struct text *text, struct rng *rng, size_t size)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t left = size; left > 0; left--) {
        text_add(text, slice_of(&alphabet[rng_below(rng, 64)], 1));
    }
}

typedef void (*add_fn)(struct text *text, struct rng *rng, size_t size);

static void add_message(struct text *text, struct rng *rng, const char *role, add_fn add,
                        size_t size)
{
    text_add_format(text, "{\"role\":\"%s\",\"content\":\"", role);
    add(text, rng, size);
    text_add_str(text, "\"},");
}

static void add_call(struct text *text, struct rng *rng, uint32_t number)
{
    text_add_format(text,
                    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
                    "\"call_%016x\",\"type\":\"function\",\"function\":{\"name\":\"edit_file\","
                    "\"arguments\":\"{\\\"path\\\":\\\"src/main.py\\\",\\\"new_text\\\":\\\"",
                    number);
    add_english(text, rng, 60 + rng_below(rng, 400));
    text_add_format(text,
                    "\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"call_%016x\",\"content\":\"",
                    number);
    add_code(text, rng, 300 + rng_below(rng, 4000));
    text_add_str(text, "\"},");
}

static void add_picture(struct text *text, struct rng *rng, size_t size)
{
    text_add_str(text, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"");
    add_english(text, rng, 80);
    text_add_str(text,
                 "\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,");
    add_base64(text, rng, size);
    text_add_str(text, "\",\"detail\":\"auto\"}}]},");
}

static void add_tools(struct text *text, struct rng *rng, uint32_t count)
{
    text_add_str(text, "\"tools\":[");
    for (uint32_t i = 0; i < count; i++) {
        text_add_format(text,
                        "%s{\"type\":\"function\",\"function\":{\"name\":\"tool_%u\","
                        "\"description\":\"",
                        i > 0 ? "," : "", i);
        add_english(text, rng, 60 + rng_below(rng, 300));
        text_add_str(text,
                     "\",\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{");
        for (uint32_t left = 1 + rng_below(rng, 6); left > 0; left--) {
            text_add_format(text, "\"%s_%u\":{\"type\":\"%s\",\"description\":\"",
                            left % 2 == 0 ? "path" : "limit", left,
                            left % 2 == 0 ? "string" : "integer");
            add_english(text, rng, 20 + rng_below(rng, 80));
            text_add_format(text, "\"}%s", left > 1 ? "," : "");
        }
        text_add_str(text, "},\"required\":[\"path_2\"],\"additionalProperties\":false}}}");
    }
    text_add_str(text, "],");
}

static void begin(struct text *text)
{
    text_add_str(text, "{\"model\":\"Qwen/Qwen3-32B\",\"stream\":true,\"temperature\":0.7,"
                       "\"max_tokens\":4096,\"stream_options\":{\"include_usage\":true},");
}

static void write_agent(struct text *text, size_t size)
{
    struct rng rng = {.state = 1};

    begin(text);
    add_tools(text, &rng, 24);
    text_add_str(text, "\"messages\":[");
    add_message(text, &rng, "system", add_english, size / 25);
    add_picture(text, &rng, size / 8);
    for (uint32_t turn = 0; text->size < size && !text->overflow; turn++) {
        add_message(text, &rng, "user", turn % 4 == 3 ? add_chinese : add_english,
                    80 + rng_below(&rng, 800));
        add_call(text, &rng, turn);
        add_message(text, &rng, "assistant", turn % 4 == 3 ? add_chinese : add_english,
                    200 + rng_below(&rng, 1500));
        add_message(text, &rng, "assistant", add_code, 200 + rng_below(&rng, 1500));
    }
    text_add_str(text, "{\"role\":\"user\",\"content\":\"go on\"}]}");
}

// Turns of one kind of text, 200 to 4,000 bytes each.
static void write_chat(struct text *text, size_t size, add_fn add)
{
    struct rng rng = {.state = 2};

    begin(text);
    text_add_str(text, "\"messages\":[");
    for (uint32_t turn = 0; text->size < size && !text->overflow; turn++) {
        add_message(text, &rng, turn % 2 == 0 ? "user" : "assistant", add,
                    200 + rng_below(&rng, 3800));
    }
    text_add_str(text, "{\"role\":\"user\",\"content\":\"\"}]}");
}

static void write_english(struct text *text, size_t size)
{
    write_chat(text, size, add_english);
}

static void write_code(struct text *text, size_t size)
{
    write_chat(text, size, add_code);
}

static void write_chinese(struct text *text, size_t size)
{
    write_chat(text, size, add_chinese);
}

static void write_escaped(struct text *text, size_t size)
{
    write_chat(text, size, add_escaped);
}

// Frequent tokens have small numbers: each count of digits up to that of a vocabulary of 150,000 is
// there, and the longer ones more often.
static void write_ids(struct text *text, size_t size)
{
    struct rng rng = {.state = 3};

    begin(text);
    text_add_str(text, "\"prompt\":[151644");
    while (text->size < size && !text->overflow) {
        static const uint32_t bounds[] = {100, 1000, 10000, 50000, 151643, 151643};
        uint32_t bound = bounds[rng_below(&rng, ARRAY_COUNT(bounds))];
        text_add_format(text, ",%u", rng_below(&rng, bound));
    }
    text_add_str(text, "]}");
}

const struct body_kind body_kinds[] = {
    {"scan_200k", write_agent},           {"scan_200k_english", write_english},
    {"scan_200k_code", write_code},       {"scan_200k_chinese", write_chinese},
    {"scan_200k_escaped", write_escaped}, {"scan_200k_ids", write_ids},
};
const size_t body_kind_count = ARRAY_COUNT(body_kinds);

void body_write_chunk(struct text *text, uint32_t number)
{
    struct rng rng = {.state = number};

    text_add_str(text, "{\"id\":\"chatcmpl-8c7d3c7e5b8f4a0f9d4e2b1a6c3f5e7d\",\"object\":"
                       "\"chat.completion.chunk\",\"created\":1763164800,\"model\":"
                       "\"Qwen/Qwen3-32B\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    switch (rng_below(&rng, 8)) {
    case 0:
        add_chinese(text, &rng, 1);
        break;
    case 1:
        text_add_str(text, ".\\n\\n");
        break;
    default:
        add_english(text, &rng, 1);
    }
    text_add_str(text, "\"},\"logprobs\":null,\"finish_reason\":null}]}");
}
