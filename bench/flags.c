// SPDX-License-Identifier: Apache-2.0

#include "flags.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const struct flag *find(const struct flag *flags, size_t flag_count, const char *word)
{
    if (strncmp(word, "--", 2) == 0) {
        word += 2;
    }
    for (size_t i = 0; i < flag_count; i++) {
        if (strcmp(flags[i].name, word) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

bool flags_read(const struct flag *flags, size_t flag_count, int word_count, char **words)
{
    for (int i = 0; i < word_count; i += 2) {
        const struct flag *flag = find(flags, flag_count, words[i]);
        if (!flag || i + 1 == word_count) {
            fprintf(stderr, "%s: %s\n", words[i], flag ? "needs a value" : "unknown");
            return false;
        }
        if (flag->text) {
            *flag->text = words[i + 1];
        } else if (!slice_parse_u64(slice_str(words[i + 1]), flag->number)) {
            fprintf(stderr, "%s: %s is not a number\n", words[i], words[i + 1]);
            return false;
        }
    }
    return true;
}

void flags_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == -1) {
        perror("setrlimit");
    }
}
