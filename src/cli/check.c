// SPDX-License-Identifier: Apache-2.0
//
// check -- reads a configuration as serve would, with the files that it names, and starts nothing.

#include "base/text.h"
#include "config/config.h"
#include "config/option/command.h"
#include "net/tls.h"

#include <stdio.h>

// Certificates are part of a configuration that works.
static bool files_are_good(const struct config *config)
{
    char why[tls_error_size];
    struct tls_context *context = NULL;

    if (config->tls.certificate != NULL) {
        struct tls_server_options options = {.certificate = config->tls.certificate,
                                             .key = config->tls.key};
        if (tls_server_create(&options, &context, why) != STATUS_OK) {
            fprintf(stderr, "tls: %s\n", why);
            return false;
        }
        tls_context_destroy(&context);
    }
    if (config->backend_tls.ca != NULL) {
        struct tls_client_options options = {.ca = config->backend_tls.ca, .verify = true};
        if (tls_client_create(&options, &context, why) != STATUS_OK) {
            fprintf(stderr, "backend_tls: %s\n", why);
            return false;
        }
        tls_context_destroy(&context);
    }
    return true;
}

int command_check(int word_count, char **words)
{
    if (word_count != 1) {
        fprintf(stderr, "warmpath check: name one configuration file\n");
        return COMMAND_USAGE;
    }
    struct config *config = NULL;
    struct config_error error;
    struct config_source source = {.path = words[0]};
    if (config_load(&source, &config, &error) != STATUS_OK) {
        char line[1024];
        struct text text = text_over(line, sizeof(line));
        config_error_write(&error, &text);
        fprintf(stderr, "%.*s\n", (int)text.size, line);
        return COMMAND_USAGE;
    }
    bool good = files_are_good(config);
    if (good) {
        printf("%s: %u backends in %u pools\n", words[0], config->backend_count,
               config->pool_count);
    }
    config_destroy(&config);
    return good ? COMMAND_OK : COMMAND_USAGE;
}
