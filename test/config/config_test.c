// SPDX-License-Identifier: Apache-2.0
//
// The defaults, every option set both ways, and loading from the disk.

#include "config/config.h"

#include "config/option/option.h"
#include "outcome.h"

#include <stdlib.h>
#include <unistd.h>

TEST(name_servers_are_joined_with_commas)
{
    char space[config_dns_servers_size];
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    CHECK(config_dns_servers(config, space) == NULL);
    CHECK_STR(outcome("backends: [http://a]\ndns: {servers: [10.0.0.2, '[::1]:5353']}\n"), "ok");
    CHECK_STR(config_dns_servers(config, space), "10.0.0.2,[::1]:5353");
}

TEST(defaults_are_what_the_manual_promises)
{
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    CHECK_EQ(config->listen.count, 1);
    CHECK_STR(config->listen.items[0], "127.0.0.1:8080");
    CHECK_EQ(config->workers, 0);
    CHECK_STR(config->policy, "warm");
    CHECK_EQ(config->load_bound_percent, 125);
    CHECK_EQ(config->session_headers.count, 2);
    CHECK_STR(config->session_headers.items[0], "x-session-id");
    CHECK_STR(config->session_headers.items[1], "x-claude-code-session-id");
    CHECK_EQ(config->authorization, CONFIG_AUTHORIZATION_FORWARD);
    CHECK(config->api_key == NULL);
    CHECK(config->backend_header);
    CHECK(!config->decision_header);
    CHECK(!config->ask_usage);
    CHECK(!config->forwarded_for);
    CHECK_EQ(config->prefix.memory, 256 << 20);
    CHECK_EQ(config->prefix.ttl, 3600000);
    CHECK_EQ(config->prefix.block_size, 256);
    CHECK_EQ(config->prefix.block_tokens, 16);
    CHECK(!config->half_close);
    CHECK_EQ(config->blocked_paths.count, 0);
    CHECK(config->tls.certificate == NULL && config->tls.key == NULL);
    CHECK(config->backend_tls.ca == NULL);
    CHECK(config->backend_tls.verify);
    CHECK_EQ(config->log_level, CONFIG_LOG_INFO);
    CHECK(config->admin.listen == NULL && config->admin.token == NULL);
    CHECK_EQ(config->backends[0].weight, 1);
    CHECK_EQ(config->backends[0].models.count, 0);
    CHECK(config->backends[0].api_key == NULL);
}

TEST(default_limits_and_times_are_what_the_manual_promises)
{
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    CHECK_EQ(config->limits.header_size, 32 << 10);
    CHECK_EQ(config->limits.uri_size, 8 << 10);
    CHECK_EQ(config->limits.body_size, 32 << 20);
    CHECK_EQ(config->limits.body_memory, 1 << 30);
    CHECK_EQ(config->limits.requests, 16384);
    CHECK_EQ(config->limits.connections, 32768);
    CHECK_EQ(config->limits.backends, 1024);
    CHECK_EQ(config->timeouts.header, 10000);
    CHECK_EQ(config->timeouts.body, 30000);
    CHECK_EQ(config->timeouts.keepalive, 75000);
    CHECK_EQ(config->timeouts.connect, 3000);
    CHECK_EQ(config->timeouts.first_byte, 600000);
    CHECK_EQ(config->timeouts.between_chunks, 120000);
    CHECK_EQ(config->timeouts.unread, 300000);
    CHECK_EQ(config->timeouts.request, 0);
    CHECK_EQ(config->timeouts.backend_keepalive, 4000);
    CHECK_EQ(config->timeouts.drain, 30000);
    CHECK_STR(config->health.path, "/health");
    CHECK_EQ(config->health.interval, 2000);
    CHECK_EQ(config->health.timeout, 5000);
    CHECK_EQ(config->health.rise, 1);
    CHECK_EQ(config->health.fall, 3);
    CHECK_EQ(config->health.eject_failures, 3);
    CHECK_EQ(config->health.eject_time, 1000);
    CHECK_EQ(config->health.eject_time_max, 30000);
    CHECK_EQ(config->health.stall_time, 10000);
    CHECK_EQ(config->retry.attempts, 3);
    CHECK_EQ(config->retry.on.count, 4);
    CHECK_STR(config->retry.on.items[0], "429");
    CHECK_STR(config->retry.on.items[1], "502");
    CHECK_STR(config->retry.on.items[2], "503");
    CHECK_STR(config->retry.on.items[3], "504");
    CHECK_EQ(config->retry.backoff, 10);
    CHECK_EQ(config->retry.budget_percent, 20);
    CHECK_EQ(config->retry.budget_min, 100);
    CHECK(config->models.learn);
    CHECK_EQ(config->models.interval, 10000);
    CHECK_EQ(config->models.any_name, CONFIG_ANY_NAME_AUTO);
    CHECK(config->load.scrape);
    CHECK_STR(config->load.path, "/metrics");
    CHECK_EQ(config->load.interval, 1000);
    CHECK_EQ(config->dns.ttl_min, 1000);
    CHECK_EQ(config->dns.ttl_max, 300000);
    CHECK_EQ(config->dns.servers.count, 0);
    CHECK_EQ(config->tokenizer_count, 0);
    CHECK_EQ(config->tokens.memo, 64 << 20);
    CHECK_EQ(config->tokens.prompt_size, 4 << 20);
    CHECK_EQ(config->tokens.certify_interval, 30000);
}

// A value for each row that differs from its default, what it becomes, and what has to be set
// along with it.
static const struct sample {
    const char *name;
    const char *text;
    const char *string; // NULL: a number
    uint64_t number;
    const char *along; // more YAML
} samples[] = {
    {"listen", ":1", ":1", 0, ""},
    {"workers", "7", NULL, 7, ""},
    {"policy", "least_requests", "least_requests", 0, ""},
    {"load_bound_percent", "150", NULL, 150, ""},
    {"session_headers", "x-a", "x-a", 0, ""},
    {"authorization", "strip", NULL, CONFIG_AUTHORIZATION_STRIP, ""},
    {"api_key", "k", "k", 0, ""},
    {"api_key_file", "/secret/s", "s", 0, ""},
    {"backend_header", "false", NULL, 0, ""},
    {"decision_header", "true", NULL, 1, ""},
    {"ask_usage", "true", NULL, 1, ""},
    {"forwarded_for", "true", NULL, 1, ""},
    {"half_close", "true", NULL, 1, ""},
    {"blocked_paths", "/x", "/x", 0, ""},
    {"tls.certificate", "c", "c", 0, "  key: k\n"},
    {"tls.key", "k", "k", 0, "  certificate: c\n"},
    {"backend_tls.ca", "c", "c", 0, ""},
    {"backend_tls.verify", "false", NULL, 0, ""},
    {"prefix.memory", "64m", NULL, 64 << 20, ""},
    {"prefix.ttl", "5m", NULL, 300000, ""},
    {"prefix.block_size", "128", NULL, 128, ""},
    {"prefix.block_tokens", "32", NULL, 32, ""},
    {"tokens.memo", "8m", NULL, 8 << 20, ""},
    {"tokens.prompt_size", "1m", NULL, 1 << 20, ""},
    {"tokens.certify_interval", "1s", NULL, 1000, ""},
    {"tuning.match_percent", "50", NULL, 50, ""},
    {"tuning.balance_absolute", "8", NULL, 8, ""},
    {"tuning.balance_percent", "110", NULL, 110, ""},
    {"tuning.prefill_scale", "32", NULL, 32, ""},
    {"tuning.temperature_percent", "10", NULL, 10, ""},
    {"limits.header_size", "64k", NULL, 65536, ""},
    {"limits.uri_size", "4k", NULL, 4096, ""},
    {"limits.body_size", "1m", NULL, 1048576, ""},
    {"limits.body_memory", "8g", NULL, 8589934592, ""},
    {"limits.requests", "9", NULL, 9, ""},
    {"limits.connections", "9", NULL, 9, ""},
    {"limits.backends", "9", NULL, 9, ""},
    {"timeouts.header", "9s", NULL, 9000, ""},
    {"timeouts.body", "9s", NULL, 9000, ""},
    {"timeouts.keepalive", "9s", NULL, 9000, ""},
    {"timeouts.connect", "9s", NULL, 9000, ""},
    {"timeouts.first_byte", "9s", NULL, 9000, ""},
    {"timeouts.unread", "9s", NULL, 9000, ""},
    {"timeouts.between_chunks", "9s", NULL, 9000, ""},
    {"timeouts.request", "9s", NULL, 9000, ""},
    {"timeouts.backend_keepalive", "9s", NULL, 9000, ""},
    {"timeouts.drain", "9s", NULL, 9000, ""},
    {"health.path", "/h", "/h", 0, ""},
    {"health.interval", "9s", NULL, 9000, ""},
    {"health.timeout", "9s", NULL, 9000, ""},
    {"health.rise", "9", NULL, 9, ""},
    {"health.fall", "9", NULL, 9, ""},
    {"health.eject_failures", "9", NULL, 9, ""},
    {"health.eject_time", "9s", NULL, 9000, ""},
    {"health.eject_time_max", "9s", NULL, 9000, ""},
    {"health.stall_time", "9s", NULL, 9000, ""},
    {"retry.attempts", "9", NULL, 9, ""},
    {"retry.on", "500", "500", 0, ""},
    {"retry.backoff", "9ms", NULL, 9, ""},
    {"retry.budget_percent", "9", NULL, 9, ""},
    {"retry.budget_min", "9", NULL, 9, ""},
    {"models.learn", "false", NULL, 0, ""},
    {"models.interval", "9s", NULL, 9000, ""},
    {"models.any_name", "off", NULL, CONFIG_ANY_NAME_OFF, ""},
    {"load.scrape", "false", NULL, 0, ""},
    {"load.path", "/m", "/m", 0, ""},
    {"load.interval", "9s", NULL, 9000, ""},
    {"events.endpoint", "tcp://*:1", "tcp://*:1", 0, ""},
    {"events.replay", "tcp://a:1", "tcp://a:1", 0, ""},
    {"events.topic", "kv", "kv", 0, ""},
    {"events.bind", "tcp://*:1", "tcp://*:1", 0, ""},
    {"events.memory", "2g", NULL, 2147483648, ""},
    {"events.copies", "set", NULL, CONFIG_COPIES_SET, ""},
    {"events.host_weight", "9", NULL, 9, ""},
    {"events.disk_weight", "9", NULL, 9, ""},
    {"dns.ttl_min", "9s", NULL, 9000, ""},
    {"dns.ttl_max", "9s", NULL, 9000, ""},
    {"dns.servers", "10.0.0.2", "10.0.0.2", 0, ""},
    {"cluster.listen", ":7", ":7", 0, "  secret: 0123456789abcdef\n"},
    {"cluster.peers", "a:7", "a:7", 0, "  listen: :7\n  secret: 0123456789abcdef\n"},
    {"cluster.store", "redis://a", "redis://a", 0, ""},
    {"cluster.store_file", "/secret/r", "r", 0, ""},
    {"cluster.store_ca", "c", "c", 0, ""},
    {"cluster.store_verify", "false", NULL, 0, ""},
    {"cluster.secret", "0123456789abcdef", "0123456789abcdef", 0, ""},
    {"cluster.secret_file", "/secret/0123456789abcdef", "0123456789abcdef", 0, ""},
    {"cluster.certificate", "c", "c", 0, "  key: k\n  ca: a\n"},
    {"cluster.key", "k", "k", 0, "  certificate: c\n  ca: a\n"},
    {"cluster.ca", "a", "a", 0, "  certificate: c\n  key: k\n"},
    {"cluster.name", "n", "n", 0, ""},
    {"cluster.interval", "9ms", NULL, 9, ""},
    {"cluster.memory", "9m", NULL, 9 << 20, ""},
    {"admin.listen", ":2", ":2", 0, "  token: t\n"},
    {"admin.token", "t", "t", 0, ""},
    {"admin.token_file", "/secret/t", "t", 0, ""},
    {"record.file", "/tmp/t", "/tmp/t", 0, ""},
    {"record.block_tokens", "512", NULL, 512, ""},
    {"record.size_max", "2g", NULL, 2147483648, ""},
    {"metrics.enabled", "false", NULL, 0, ""},
    {"metrics.listen", ":3", ":3", 0, ""},
    {"access_log.file", "/tmp/a", "/tmp/a", 0, ""},
    {"access_log.format", "text", NULL, CONFIG_ACCESS_TEXT, ""},
    {"access_log.every", "9", NULL, 9, ""},
    {"access_log.slow_file", "/tmp/s", "/tmp/s", 0, ""},
    {"access_log.slow_first", "9s", NULL, 9000, ""},
    {"access_log.slow_total", "9s", NULL, 9000, ""},
    {"decisions.keep", "9", NULL, 9, ""},
    {"tracing.endpoint", "http://c:4318", "http://c:4318", 0, ""},
    {"tracing.every", "9", NULL, 9, ""},
    {"tracing.service", "s", "s", 0, ""},
    {"savings.gpu_hour_cents", "9", NULL, 9, ""},
    {"savings.gpus", "9", NULL, 9, ""},
    {"savings.currency", "€", "€", 0, ""},
    {"log.level", "debug", NULL, CONFIG_LOG_DEBUG, ""},
    {"log.format", "json", NULL, CONFIG_LOG_JSON, ""},
};

// Writes "group:\n  key: value\n" or "key: value\n"; without a value when `with_value` is false.
static void write_yaml(const struct sample *sample, bool with_value, char *yaml, size_t size)
{
    const struct config_option *option = config_option_find(&config_options, sample->name);
    const char *key = config_option_key(option);
    int group_size = (int)(key - option->name);

    snprintf(yaml, size, "backends: [http://a]\n%.*s%s%s%s%s%s%s%s",
             group_size > 0 ? group_size - 1 : 0, option->name, group_size > 0 ? ":\n" : "",
             with_value && group_size > 0 ? "  " : "", with_value ? key : "",
             with_value ? ": " : "", with_value ? sample->text : "", with_value ? "\n" : "",
             sample->along);
}

static bool holds(const struct sample *sample)
{
    const struct config_option *option = config_option_find(&config_options, sample->name);
    const uint8_t *field = (const uint8_t *)config + option->offset;
    uint64_t number = 0;
    const char *string;

    if (option->is_list) {
        const struct config_list *list = (const struct config_list *)(const void *)field;
        return list->count == 1 && strcmp(list->items[0], sample->string) == 0;
    }
    if (sample->string == NULL) {
        memcpy(&number, field, option->size);
        return number == sample->number;
    }
    memcpy(&string, field, sizeof(string));
    return string != NULL && strcmp(string, sample->string) == 0;
}

TEST(every_option_can_be_set_in_the_file)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        char yaml[256];
        write_yaml(&samples[i], true, yaml, sizeof(yaml));
        const char *got = outcome(yaml);
        if (strcmp(got, "ok") != 0 || !holds(&samples[i])) {
            test_fail(__FILE__, __LINE__, "%s: %s", samples[i].name, got);
        }
    }
}

TEST(every_option_can_be_set_by_its_flag)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        char yaml[256];
        char flag[config_flag_size_max];
        write_yaml(&samples[i], false, yaml, sizeof(yaml));
        config_option_flag(config_option_find(&config_options, samples[i].name), flag);
        const char *got = outcome_with(yaml, FLAGS(flag, samples[i].text));
        if (strcmp(got, "ok") != 0 || !holds(&samples[i])) {
            test_fail(__FILE__, __LINE__, "%s: %s", flag, got);
        }
    }
}

TEST(the_samples_above_leave_no_option_out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < config_options.count; i++) {
        const struct config_option *option = &config_options.rows[i];
        bool sampled = option->items != NULL; // backends, pools, tokenizers: bind_options_test
        for (size_t k = 0; k < ARRAY_COUNT(samples); k++) {
            sampled = sampled || strcmp(samples[k].name, option->name) == 0;
        }
        if (!sampled) {
            test_fail(__FILE__, __LINE__, "no sample for %s", option->name);
        }
        found += sampled;
    }
    CHECK_EQ(found, ARRAY_COUNT(samples) + 3);
}

static const char *load(const char *path)
{
    struct config_source source = {.path = path};
    struct config_error error;

    config_destroy(&config);
    enum status status = config_load(&source, &config, &error);
    if (status == STATUS_OK) {
        return "ok";
    }
    struct text text = text_over(outcome_text, sizeof(outcome_text) - 1);
    text_add_format(&text, "%s; ", status_text(status));
    config_error_write(&error, &text);
    outcome_text[text.size] = '\0';
    return outcome_text;
}

// Loads a file with `size` bytes of `text` over and over.
static const char *load_file(const char *text, size_t size)
{
    char path[] = "/tmp/config_test.XXXXXX";
    int fd = mkstemp(path);
    ASSERT(fd != -1);
    FILE *file = fdopen(fd, "w");
    ASSERT(file != NULL);
    for (size_t i = 0; i < size; i++) {
        fputc(text[i % strlen(text)], file);
    }
    fclose(file);
    const char *got = load(path);
    unlink(path);
    char *name = strstr(outcome_text, path);
    if (name != NULL) { // the name is random: leave it out
        memmove(name, name + strlen(path), strlen(name + strlen(path)) + 1);
    }
    return got;
}

TEST(loads_a_file_and_names_it_in_errors)
{
    CHECK_STR(load_file("backends: http://a\n", 19), "ok");
    CHECK_STR(config->backends[0].url, "http://a");
    CHECK_STR(load_file("\nbackends: a\n", 13),
              "input does not follow its format; :2:11: backends.url: \"a\": a URL starts with "
              "http:// or https://");
}

TEST(a_missing_file_is_one_clear_error)
{
    CHECK_STR(load("/no/such/file"), "system call failed; errno is set; /no/such/file: cannot read "
                                     "the configuration: No such file or directory");
    CHECK_STR(load("/"), "system call failed; errno is set; /: cannot read the configuration: Is a "
                         "directory");
}

TEST(a_file_of_a_mebibyte_passes_and_one_byte_more_does_not)
{
    CHECK_STR(load_file("#\n", 1 << 20), "input does not follow its format; : no backends: name at "
                                         "least one, or set admin.listen to add them later");
    CHECK_STR(load_file("#\n", (1 << 20) + 1), "input exceeds a configured limit; : more than "
                                               "1048576 bytes, which no configuration needs");
    static char large[(1 << 20) + 1];
    memset(large, '#', sizeof(large));
    struct config_error error;
    CHECK_EQ(config_parse(slice_of(large, sizeof(large)), "f", NULL, &config, &error),
             STATUS_TOO_LARGE);
}

TEST(four_thousand_backends_with_everything_fit)
{
    enum { count = 4096, line_size = 200 };
    size_t capacity = (size_t)count * line_size;
    char *yaml = malloc(capacity);
    ASSERT(yaml != NULL);
    struct text text = text_over(yaml, capacity);
    text_add_str(&text, "limits: {backends: 4096}\nbackends:\n");
    for (int i = 1; i <= count; i++) {
        text_add_format(&text,
                        "- {url: 'http://engine-%d.fleet.internal:%d', weight: 2, pool: default,\n"
                        "   models: [alpha, beta, gamma, delta], api_key: sk-0123456789-%d}\n",
                        i, i, i);
    }
    ASSERT(!text.overflow);
    size_t size = text.size;
    struct config_error error;

    config_destroy(&config);
    enum status status = config_parse(slice_of(yaml, size), "f", NULL, &config, &error);
    free(yaml);
    CHECK_STR(error.text, "");
    CHECK_EQ(status, STATUS_OK);
    CHECK_EQ(config->backend_count, count);
    CHECK_EQ(config->backends[count - 1].port, 4096);
    CHECK_EQ(config->backends[count - 1].models.count, 4);
}

TEST(empty_values_end_at_the_limit)
{
    static char commas[1 << 20];
    memset(commas, 'a', sizeof(commas));
    for (size_t i = 2; i < sizeof(commas); i += 2) {
        commas[i] = ',';
    }
    commas[0] = '[';
    struct config_error error;
    config_destroy(&config);
    CHECK_EQ(config_parse(slice_of(commas, sizeof(commas)), "f", NULL, &config, &error),
             STATUS_TOO_LARGE);
    CHECK_STR(error.text, "the configuration holds too many values");
}

TEST(an_error_is_written_with_its_place_or_without)
{
    char space[64];
    struct text text = text_over(space, sizeof(space));
    config_error_write(&(struct config_error){.file = "f", .line = 2, .column = 3, .text = "t"},
                       &text);
    CHECK(slice_is(text_slice(&text), "f:2:3: t"));
    text = text_over(space, sizeof(space));
    config_error_write(&(struct config_error){.file = "command line", .text = "t"}, &text);
    CHECK(slice_is(text_slice(&text), "command line: t"));
}

TEST(destroy_clears_the_pointer_and_accepts_null)
{
    CHECK_STR(outcome("backends: [http://a]\n"), "ok");
    config_destroy(&config);
    CHECK(config == NULL);
    config_destroy(&config);
}
