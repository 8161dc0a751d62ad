// SPDX-License-Identifier: Apache-2.0

#include "chat.h"

#include "base/base.h"
#include "base/rng.h"

static const char *const words[] = {
    "the",     "a",        "of",    "and",     "request", "to",    "in",    "is",      "that",
    "server",  "we",       "for",   "it",      "with",    "cache", "as",    "was",     "on",
    "memory",  "be",       "at",    "by",      "this",    "have",  "from",  "or",      "one",
    "had",     "question", "but",   "not",     "what",    "all",   "were",  "when",    "your",
    "can",     "said",     "there", "answer",  "use",     "each",  "which", "she",     "do",
    "how",     "their",    "if",    "will",    "up",      "other", "about", "out",     "many",
    "then",    "them",     "these", "so",      "some",    "her",   "would", "make",    "like",
    "into",    "time",     "has",   "look",    "two",     "more",  "write", "go",      "see",
    "number",  "no",       "way",   "could",   "people",  "my",    "than",  "first",   "water",
    "been",    "call",     "who",   "network", "its",     "now",   "find",  "long",    "down",
    "day",     "did",      "get",   "come",    "made",    "may",   "part",  "harbour", "weather",
    "tomorrow"};

// As they stand in JSON.
static const char *const code_lines[] = {
    "    for (int i = 0; i < count; i++) {\\n",
    "        total += values[i] * weights[i];\\n",
    "    if (!node) {\\n        return NULL;\\n    }\\n",
    "def parse(line, separator=\\\",\\\"):\\n",
    "    return [field.strip() for field in line.split(separator)]\\n",
    "    printf(\\\"%d items left\\\\n\\\", count);\\n",
    "SELECT name, count(*) FROM orders WHERE day > 7 GROUP BY name;\\n",
    "    self.items.append({\\\"id\\\": item.id, \\\"price\\\": item.price})\\n",
};

static void add_sentence(struct text *text, struct rng *rng)
{
    uint32_t count = 6 + rng_below(rng, 12);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(text, words[rng_below(rng, ARRAY_COUNT(words))]);
        text_add_str(text, i + 1 < count ? " " : ". ");
    }
    if (rng_below(rng, 4) == 0) {
        text_add_str(text, "\\n\\n");
    }
}

static void add_code(struct text *text, struct rng *rng)
{
    text_add_str(text, "\\n```\\n");
    uint32_t count = 3 + rng_below(rng, 6);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(text, code_lines[rng_below(rng, ARRAY_COUNT(code_lines))]);
    }
    text_add_str(text, "```\\n");
}

// Returns where in it its number is.
static size_t add_message(struct text *text, struct rng *rng, const char *role, size_t size)
{
    size_t begin = text->size;
    size_t end = begin + size;

    text_add_format(text, "{\"role\":\"%s\",\"content\":\"Message ", role);
    size_t number_at = text->size - begin;
    text_add_str(text, "000000000000: ");
    while (text->size < end && !text->overflow) {
        if (rng_below(rng, 8) == 0) {
            add_code(text, rng);
        } else {
            add_sentence(text, rng);
        }
    }
    text_add_str(text, "\"}");
    return number_at;
}

void chat_stamp(uint8_t *digits, uint64_t number)
{
    for (int i = chat_stamp_digits - 1; i >= 0; i--) {
        digits[i] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
}

struct chat_body chat_write(const struct chat_plan *shape, struct text *text)
{
    struct rng system = {.state = shape->application};
    struct rng own = {.state = (uint64_t)shape->application << 32 | shape->conversation};
    size_t begin = text->size;
    size_t end = begin + shape->size;

    rng_next(&own); // the streams of neighbouring numbers part with the first step
    text_add_str(text, "{\"model\":\"bench\",\"messages\":[");
    add_message(text, &system, "system", shape->system_size);
    while (text->size + 2200 < end && !text->overflow) {
        text_add_str(text, ",");
        add_message(text, &own, "user", 200 + rng_below(&own, 600));
        text_add_str(text, ",");
        add_message(text, &own, "assistant", 600 + rng_below(&own, 1200));
    }
    text_add_str(text, ",");
    size_t last_at = text->size;
    size_t rest = end > text->size + 250 ? end - text->size - 150 : 100;
    size_t number_at = add_message(text, &own, "user", rest);
    struct chat_body body = {.last_size = text->size - last_at,
                             .stamp_at = last_at + number_at - begin};
    text_add_str(text, "],\"temperature\":0.7,\"max_tokens\":512,\"stream\":false");
    if (shape->has_user) {
        text_add_format(text, ",\"user\":\"user-%u-%u\"", shape->application, shape->conversation);
    }
    text_add_str(text, "}");
    return body;
}
