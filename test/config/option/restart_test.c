// SPDX-License-Identifier: Apache-2.0

#include "config/option/restart.h"

#include "base/text.h"
#include "config/config.h"
#include "test.h"

static const char base[] = "backends: ['http://10.0.0.1']\n";

static struct config *parse(const char *more)
{
    char yaml[1024];
    struct config *config = NULL;
    struct config_error error;

    snprintf(yaml, sizeof(yaml), "%s%s", base, more);
    ASSERT(config_parse(slice_str(yaml), "test", NULL, &config, &error) == STATUS_OK);
    return config;
}

// The names between two configurations; valid until the next call.
static const char *changed(const char *before, const char *after)
{
    static char names[1024];
    struct text text = text_over(names, sizeof(names) - 1);
    struct config *old = parse(before);
    struct config *new = parse(after);

    config_restart_add(old, new, &text);
    ASSERT(!text.overflow);
    names[text.size] = '\0';
    config_destroy(&old);
    config_destroy(&new);
    return names;
}

TEST(options_that_a_reload_applies_are_not_named)
{
    CHECK_STR(changed("", ""), "");
    CHECK_STR(changed("policy: warm\n", "policy: random\ntimeouts: {header: 1s}\n"), "");
    CHECK_STR(changed("", "log: {level: debug}\nprefix: {block_size: 128}\n"), "");
}

TEST(every_kind_of_value_is_compared)
{
    CHECK_STR(changed("", "workers: 3\n"), "workers");
    CHECK_STR(changed("", "limits: {body_memory: 2g}\nprefix: {ttl: 2h}\n"),
              "prefix.ttl, limits.body_memory");
    CHECK_STR(changed("", "metrics: {enabled: false}\n"), "metrics.enabled");
    CHECK_STR(changed("", "events: {copies: set}\n"), "events.copies");
    CHECK_STR(changed("", "tracing: {service: other}\n"), "tracing.service");
    CHECK_STR(changed("", "record: {file: /tmp/a}\n"), "record.file");
    CHECK_STR(changed("listen: ':1'\n", "listen: [':1', ':2']\n"), "listen");
    CHECK_STR(changed("listen: ':1'\n", "listen: ':2'\n"), "listen");
    CHECK_STR(changed("dns: {servers: [10.0.0.1]}\n", "dns: {servers: [10.0.0.1]}\n"), "");
}

TEST(tokenizers_are_compared_row_by_row)
{
    static const char one[] = "tokenizers: [{path: /a, models: [m]}]\n";
    CHECK_STR(changed(one, one), "");
    CHECK_STR(changed("", one), "tokenizers");
    CHECK_STR(changed(one, "tokenizers: [{path: /a, models: [n]}]\n"), "tokenizers");
    CHECK_STR(changed(one, "tokenizers: [{path: /a, models: [m], trust: true}]\n"), "tokenizers");
    CHECK_STR(changed(one, "tokenizers: [{path: /a, models: [m], utc_offset: '+01:00'}]\n"),
              "tokenizers");
}

TEST(the_first_source_of_kv_events_needs_a_restart)
{
    CHECK_STR(changed("", "events: {endpoint: 'tcp://127.0.0.1:1'}\n"),
              "whether KV events are received at all");
}
