// SPDX-License-Identifier: Apache-2.0
//
// certify -- asks engines whether a tokenizer and its chat template are theirs, and says where they
// differ.
//
// The check that serve makes at its start, once and with details.  Exit status 0: every backend
// agrees in every case that it could compare.

#include "base/base.h"
#include "base/reclaim.h"
#include "base/text.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "dialect/certify.h"
#include "discovery/roster.h"
#include "feed/certifier.h"
#include "feed/prober.h"
#include "fleet/fleet.h"
#include "keeper/dialects.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdio.h>

enum { yaml_size_max = 65536 };

struct certify_options {
    struct flag_list backend;
    const char *tokenizer;
    const char *model;
    const char *engine;
    const char *chat_template;
    const char *api_key;
    const char *ca;
    double timeout;
    bool insecure;
    bool quiet;
};

#define OWNER struct certify_options
static const struct config_option certify_flags[] = {
    FLAG_LIST(backend, url, "An engine; may be given several times."),
    FLAG(tokenizer, file, NULL, "A directory with tokenizer.json and tokenizer_config.json."),
    FLAG(model, text, NULL, "The engine's name of the model, if its own list has another one."),
    FLAG(engine, name, "vllm", "vllm, sglang, trtllm or plain."),
    FLAG(chat_template, file, NULL, "A template to use instead of the directory's."),
    FLAG(timeout, seconds, "60s", "For all backends together."),
    FLAG(api_key, secret, NULL, "Sent as a bearer token."),
    FLAG(ca, file, NULL, "Certificates to trust for https, PEM."),
    FLAG(insecure, toggle, NULL, "Do not verify TLS certificates."),
    FLAG(quiet, toggle, NULL, "Print only the result, no cases."),
};
static const struct config_option_table certify_table = FLAG_TABLE("certify", certify_flags);
#undef OWNER

struct certify_command {
    struct certify_options options;
    struct config *config;
    struct loop *loop;
    struct timer deadline;
    struct reclaim reclaim;
    struct fleet *fleet;
    struct prober *prober;
    struct roster *roster;
    struct dialect_set *dialects;
    struct certifier *certifier;
    uint32_t ended_count;
    bool has_failed;
};

static void certify_add_row(struct text *yaml, const char *before, const char *key,
                            const char *value)
{
    if (value != NULL) {
        text_add_format(yaml, "%s%s: ", before, key);
        text_add_json(yaml, slice_str(value)); // JSON is YAML
        text_add_str(yaml, "\n");
    }
}

// The same checks and messages as for a configuration file.
static bool make_config(struct certify_command *command)
{
    const struct certify_options *options = &command->options;
    static uint8_t space[yaml_size_max];
    struct text yaml = text_over(space, sizeof(space));
    struct config_error error;

    text_add_str(&yaml, "backends:\n");
    for (uint32_t i = 0; i < options->backend.count; i++) {
        certify_add_row(&yaml, "  - ", "url", options->backend.items[i]);
        certify_add_row(&yaml, "    ", "api_key", options->api_key);
        certify_add_row(&yaml, "    ", "models", options->model);
    }
    text_add_str(&yaml, "tokenizers:\n");
    certify_add_row(&yaml, "  - ", "path", options->tokenizer);
    certify_add_row(&yaml, "    ", "engine", options->engine);
    certify_add_row(&yaml, "    ", "chat_template", options->chat_template);
    certify_add_row(&yaml, "    ", "models", options->model);
    text_add_str(&yaml, "authorization: ");
    text_add_str(&yaml, options->api_key != NULL ? "replace\n" : "forward\n");
    text_add_format(&yaml, "backend_tls:\n  verify: %s\n", options->insecure ? "false" : "true");
    certify_add_row(&yaml, "  ", "ca", options->ca);
    if (yaml.overflow || config_parse(text_slice(&yaml), "command line", NULL, &command->config,
                                      &error) != STATUS_OK) {
        return command_fail("certify", yaml.overflow ? "the command line is too long" : error.text,
                            NULL);
    }
    return true;
}

static void saw_case(void *owner, const char *name, const char *verdict, const char *why)
{
    const struct certify_command *command = owner;
    if (!command->options.quiet) {
        printf("  %-28s %-8s %s\n", name, verdict, why);
    }
}

static void saw_end(void *owner, const struct certify *certify, const char *why)
{
    struct certify_command *command = owner;
    char space[1024];
    struct text names = text_over(space, sizeof(space));

    command->ended_count++;
    command->has_failed |= why != NULL || certify->differed_count > 0;
    if (why != NULL) {
        printf("cannot be asked: %s\n", why);
    } else {
        dialect_add_shapes(certify_result(certify), &names);
        printf("%u cases agree, %u differ, %u could not be compared; certified: %.*s\n",
               certify->agreed_count, certify->differed_count, certify->skipped_count,
               (int)names.size, space);
    }
    if (command->ended_count == command->options.backend.count) {
        loop_stop(command->loop);
    }
}

static void certify_fleet_has_news(void *owner)
{
    struct certify_command *command = owner;
    fleet_publish(command->fleet);
}

static bool certify_set_up(struct certify_command *command)
{
    const struct config *config = command->config;

    reclaim_init(&command->reclaim, 0);
    if (loop_create(&command->loop) != STATUS_OK) {
        return false;
    }
    command->fleet =
        fleet_create(&(struct fleet_limits){.backend_count_max = config->limits.backends,
                                            .pool_count = fleet_pool_count_max},
                     &command->reclaim);
    if (command->fleet == NULL) {
        return false;
    }
    command->prober = prober_create(&(struct prober_options){.loop = command->loop,
                                                             .fleet = command->fleet,
                                                             .config = config,
                                                             .changed = certify_fleet_has_news,
                                                             .owner = command});
    if (command->prober == NULL) {
        return false;
    }
    command->roster = roster_create(&(struct roster_options){.loop = command->loop,
                                                             .fleet = command->fleet,
                                                             .prober = command->prober,
                                                             .config = config,
                                                             .changed = certify_fleet_has_news,
                                                             .owner = command});
    command->certifier = certifier_create(&(struct certifier_options){.loop = command->loop,
                                                                      .fleet = command->fleet,
                                                                      .config = config,
                                                                      .set = command->dialects,
                                                                      .thread = 0,
                                                                      .saw_case = saw_case,
                                                                      .saw_end = saw_end,
                                                                      .owner = command});
    return command->roster != NULL && command->certifier != NULL;
}

static void out_of_time(struct timer *timer)
{
    struct certify_command *command = CONTAINER_OF(timer, struct certify_command, deadline);
    command_fail("certify", "not every backend responded in time", NULL);
    loop_stop(command->loop);
}

static int certify_run(struct certify_command *command)
{
    log_set_level(LOG_LEVEL_WARN);
    if (dialects_open(command->config, 1, &command->dialects) != STATUS_OK ||
        command->dialects == NULL) {
        return COMMAND_FAILED; // the reason was said
    }
    log_set_level(LOG_LEVEL_ERROR); // from now on we say it ourselves
    if (!certify_set_up(command)) {
        command_fail("certify", "start", "memory or descriptors are short");
        return COMMAND_FAILED;
    }
    command->deadline.fire = out_of_time;
    loop_arm(command->loop, &command->deadline, (uint64_t)(command->options.timeout * 1000));
    loop_run(command->loop, NULL, NULL);
    loop_disarm(command->loop, &command->deadline);
    bool is_complete = command->ended_count == command->options.backend.count;
    return is_complete && !command->has_failed ? COMMAND_OK : COMMAND_FAILED;
}

static void certify_tear_down(struct certify_command *command)
{
    certifier_destroy(&command->certifier);
    roster_destroy(&command->roster);
    prober_destroy(&command->prober);
    if (command->loop != NULL) {
        loop_turn(command->loop, 0); // frees closed connections
    }
    fleet_destroy(&command->fleet);
    loop_destroy(&command->loop);
    dialects_close(&command->dialects);
    config_destroy(&command->config);
}

int command_certify(int word_count, char **words)
{
    static struct certify_command command; // the program's one; too large for the stack
    int code = flags_read(&certify_table, word_count, words, &command.options);

    if (code != FLAGS_READ) {
        return code;
    }
    code = COMMAND_USAGE;
    if (command.options.backend.count == 0 || command.options.tokenizer == NULL) {
        command_fail("certify", "give --backend URL and --tokenizer DIR; --help says more", NULL);
        return code;
    }
    if (make_config(&command)) {
        code = certify_run(&command);
    }
    certify_tear_down(&command);
    return code;
}
