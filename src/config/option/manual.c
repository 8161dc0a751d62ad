// SPDX-License-Identifier: Apache-2.0
//
// Three writers over the same walk: for each group, for each row of the group, for each row of an
// item.  Help texts are plain sentences with `code` in backquotes, which each writer renders
// differently.

#include "config/option/manual.h"

#include "base/base.h"
#include "config/option/command.h"
#include "config/option/option.h"
#include "policy/policy.h"

enum { page_width = 80, help_indent = 8, describe_size_max = 256 };

const char config_manual_example[] =
    "# Two pools of engines behind one address, with TLS towards clients.\n"
    "listen: :8443\n"
    "policy: weighted_least_requests\n"
    "\n"
    "pools:\n"
    "  - name: chat\n"
    "  - name: embeddings\n"
    "    policy: round_robin\n"
    "    models: [bge-m3]\n"
    "\n"
    "backends:\n"
    "  - http://10.0.0.11:8000            # a URL alone: weight 1, the first pool\n"
    "  - http://10.0.0.12:8000\n"
    "  - url: http://10.0.0.13:8000       # twice the accelerators\n"
    "    weight: 2\n"
    "  - url: https://embed.internal\n"
    "    pool: embeddings\n"
    "\n"
    "tls:\n"
    "  certificate: /etc/warmpath/tls.crt\n"
    "  key: /etc/warmpath/tls.key\n"
    "\n"
    "limits:\n"
    "  body_size: 64m                     # conversations with many images\n"
    "\n"
    "timeouts:\n"
    "  first_byte: 20m\n"
    "  drain: 5m\n";

static const char file_text[] =
    "The configuration is a YAML file, given with `--config FILE`. It is checked as a whole before "
    "anything starts: an unknown or repeated key, a value out of bounds or two values that do not "
    "fit together are refused with file, line and column. Every key can be left out. SIGHUP reads "
    "the file again; options that say so need a restart instead.";

static const char flag_text[] =
    "Every option but `pools` is also a flag: dots and underscores become dashes, so "
    "`limits.body_size` is `--limits-body-size 8m` or `--limits-body-size=8m`. A flag wins over "
    "the file. A list is given by repeating its flag, and replaces the list of the file; of a "
    "single option given twice the last counts. A switch alone is true: `--half-close`.";

static const char yaml_text[] =
    "Quotes change nothing but are needed around text that means something else in YAML: "
    "`\"[::1]:8080\"`, `\"*:8080\"`. A list may be written as the one value that it has. Anchors, "
    "aliases, tags and more than one document are not accepted, nor is a file of more than "
    "1 MiB.";

static void describe_choices(struct text *out, const char *choices)
{
    text_add_str(out, ": ");
    for (const char *at = choices; *at != '\0';) {
        size_t size = strcspn(at, "|");
        text_add_format(out, "`%.*s`%s", (int)size, at, at[size] == '|' ? ", " : "");
        at += size + (at[size] == '|');
    }
}

// The values of a row in words: "size, from `4k` to `256k`; default `32k`; a change needs a
// restart".
static void manual_describe(const struct config_option *option, char line[describe_size_max])
{
    struct text out = text_over(line, describe_size_max - 1);

    if (option->items != NULL) {
        text_add_str(&out, "list");
    } else {
        text_add_format(&out, "%s%s", option->is_list ? "list: " : "", option->kind->name);
    }
    if (option->choices != NULL) {
        describe_choices(&out, option->choices);
    }
    if (option->low != NULL) {
        text_add_format(&out, ", from `%s`", option->low);
    }
    if (option->high != NULL) {
        text_add_format(&out, option->low != NULL ? " to `%s`" : ", at most `%s`", option->high);
    }
    if (option->is_list && option->most > 0) {
        text_add_format(&out, ", at most %u", option->most);
    }
    if (option->fallback != NULL && option->fallback[0] != '\0') {
        text_add_format(&out, "; default `%s`", option->fallback);
    }
    if (option->needs_restart) {
        text_add_str(&out, "; a change needs a restart");
    }
    ASSERT(!out.overflow);
    line[out.size] = '\0';
}

// The `index`-th row of a group; NULL past the last.
static const struct config_option *row_of_group(const struct config_option_group *group,
                                                uint32_t index)
{
    for (uint32_t i = 0; i < config_options.count; i++) {
        const struct config_option *option = &config_options.rows[i];
        if (config_option_is_in(option, group->name) && index-- == 0) {
            return option;
        }
    }
    return NULL;
}

// Plain text: fills lines up to the page width; backquotes are left out.
static void manual_wrap(FILE *out, const char *text, uint32_t indent)
{
    uint32_t column = 0;

    for (const char *word = text; *word != '\0'; word += strspn(word, " ")) {
        size_t size = strcspn(word, " ");
        if (column > 0 && column + 1 + size > page_width) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0) {
            fprintf(out, "%*s", (int)indent, "");
            column = indent;
        } else {
            fputc(' ', out);
            column++;
        }
        for (const char *at = word; at < word + size; at++) {
            if (*at != '`') {
                fputc(*at, out);
                column++;
            }
        }
        word += size;
    }
    fputc('\n', out);
}

static void write_help_row(FILE *out, const struct config_option *option)
{
    char flag[config_flag_size_max] = "";

    if (option->has_flag) {
        config_option_flag(option, flag);
    }
    fprintf(out, "  %s%s%s\n", flag, option->has_flag ? " " : "", option->kind->word);
    manual_wrap(out, option->help, help_indent);
    char line[describe_size_max];
    manual_describe(option, line);
    if (strcmp(line, option->kind->name) != 0) { // the word behind the flag says that already
        manual_wrap(out, line, help_indent);
    }
    for (uint32_t i = 0; option->kind == &config_kind_policy && policy_at(i) != NULL; i++) {
        snprintf(line, sizeof(line), "%s: %s", policy_at(i)->name, policy_at(i)->summary);
        manual_wrap(out, line, help_indent + 2);
    }
}

void config_manual_write_help(FILE *out)
{
    const struct config_option_group *group;
    const struct config_option *option;

    fputs("Options:\n", out);
    fputs("  --config FILE\n", out);
    manual_wrap(out, file_text, help_indent);
    fputc('\n', out);
    manual_wrap(out, flag_text, 2);
    for (uint32_t g = 0; (group = config_option_group_at(g)) != NULL; g++) {
        fprintf(out, "\n%s:\n", group->title);
        for (uint32_t i = 0; (option = row_of_group(group, i)) != NULL; i++) {
            if (option->has_flag) {
                write_help_row(out, option);
            }
        }
    }
}

void config_manual_write_flags(FILE *out, const struct config_option_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        write_help_row(out, &table->rows[i]);
    }
}

// The manual page.  A line of troff must not start with a dot or a quote by accident, and a bare
// hyphen may be broken or drawn as a dash.
static void troff_char(FILE *out, char byte)
{
    switch (byte) {
    case '\\':
        fputs("\\e", out);
        return;
    case '-':
        fputs("\\-", out);
        return;
    case '\'':
        fputs("\\(aq", out);
        return;
    case '.':
        fputs("\\&.", out);
        return;
    default:
        fputc(byte, out);
    }
}

// `code` becomes bold.
static void troff(FILE *out, const char *text)
{
    bool code = false;

    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '`') {
            code = !code;
            fputs(code ? "\\fB" : "\\fR", out);
        } else {
            troff_char(out, *at);
        }
    }
}

static void troff_line(FILE *out, const char *text)
{
    troff(out, text);
    fputc('\n', out);
}

// Of serve, or a key of an item.
static void write_man_row(FILE *out, const struct config_option *option, bool is_key,
                          bool is_required)
{
    char flag[config_flag_size_max];
    char line[describe_size_max];

    fputs(".TP\n\\fB", out);
    troff(out, option->name);
    fputs("\\fR", out);
    if (!is_key && option->has_flag) {
        config_option_flag(option, flag);
        fputs(", \\fB", out);
        troff(out, flag);
        fputs("\\fR", out);
    }
    if (is_key || option->has_flag) {
        fprintf(out, " \\fI%s\\fR", option->kind->word);
    }
    fputc('\n', out);
    troff_line(out, option->help);
    manual_describe(option, line);
    fputs(".br\n(", out);
    troff(out, line);
    fprintf(out, "%s)\n", is_required ? "; required" : "");
}

static void write_man_items(FILE *out, const struct config_option *option)
{
    fprintf(out, ".RS\n.PP\nKeys of an item of \\fB%s\\fR:\n", option->name);
    for (uint32_t i = 0; i < option->items->count; i++) {
        write_man_row(out, &option->items->rows[i], true, i == 0);
    }
    fputs(".RE\n", out);
}

static void write_man_front(FILE *out)
{
    fprintf(out,
            ".TH WARMPATH 8 \"\" \"warmpath %s\" \"System Manager's Manual\"\n"
            ".nh\n.ad l\n" // a name broken in two cannot be searched for
            ".SH NAME\nwarmpath \\- load balancer for language model inference\n"
            ".SH SYNOPSIS\n",
            WARMPATH_VERSION);
    for (uint32_t i = 0; command_at(i) != NULL; i++) {
        fputs(i > 0 ? ".br\n" : "", out);
        fputs("\\fBwarmpath\\fR ", out);
        troff_line(out, command_at(i)->usage);
    }
    fputs(".SH DESCRIPTION\n", out);
    troff_line(out, "warmpath is a streaming reverse proxy in front of inference servers. It "
                    "chooses a backend for each request by a routing policy, watches the health "
                    "of the fleet and streams responses as they are generated.");
    fputs(".SH COMMANDS\n", out);
    for (uint32_t i = 0; command_at(i) != NULL; i++) {
        fputs(".TP\n\\fB", out);
        troff(out, command_at(i)->usage);
        fputs("\\fR\n", out);
        troff_line(out, command_at(i)->summary);
    }
}

static void write_man_values(FILE *out)
{
    const struct config_kind *kind;

    fputs(".SH VALUES\n", out);
    for (uint32_t i = 0; (kind = config_kind_at(i)) != NULL; i++) {
        fprintf(out, ".TP\n\\fI%s\\fR\n", kind->name);
        troff(out, kind->accepts);
        fputs(".\n", out);
    }
    fputs(".SH POLICIES\n", out);
    for (uint32_t i = 0; policy_at(i) != NULL; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", policy_at(i)->name);
        troff_line(out, policy_at(i)->summary);
    }
}

static void write_man_example(FILE *out)
{
    fputs(".SH EXAMPLE\n.nf\n", out);
    for (const char *at = config_manual_example; *at != '\0'; at++) {
        troff_char(out, *at);
    }
    fputs(".fi\n", out);
}

void config_manual_write_man(FILE *out)
{
    const struct config_option_group *group;
    const struct config_option *option;

    write_man_front(out);
    fputs(".SH CONFIGURATION\n", out);
    troff_line(out, file_text);
    fputs(".PP\n", out);
    troff_line(out, flag_text);
    fputs(".PP\n", out);
    troff_line(out, yaml_text);
    for (uint32_t g = 0; (group = config_option_group_at(g)) != NULL; g++) {
        fprintf(out, ".SS %s\n", group->title);
        troff_line(out, group->text);
        for (uint32_t i = 0; (option = row_of_group(group, i)) != NULL; i++) {
            write_man_row(out, option, false, false);
            if (option->items != NULL) {
                write_man_items(out, option);
            }
        }
    }
    write_man_values(out);
    write_man_example(out);
}

static void write_markdown_row(FILE *out, const char *owner, const struct config_option *option,
                               bool required)
{
    char flag[config_flag_size_max];
    char line[describe_size_max];

    manual_describe(option, line);
    fprintf(out, "#### `%s%s`\n\n%s%s", owner, option->name, line, required ? "; required" : "");
    if (option->has_flag && owner[0] == '\0') {
        config_option_flag(option, flag);
        fprintf(out, "; flag `%s`", flag);
    }
    fprintf(out, "\n\n%s\n\n", option->help);
}

static void write_markdown_values(FILE *out)
{
    const struct config_kind *kind;

    fputs("## Values\n\n", out);
    for (uint32_t i = 0; (kind = config_kind_at(i)) != NULL; i++) {
        fprintf(out, "- **%s**: %s.\n", kind->name, kind->accepts);
    }
    fprintf(out, "\n%s\n\n", yaml_text);
    fputs("Policies:\n\n", out);
    for (uint32_t i = 0; policy_at(i) != NULL; i++) {
        fprintf(out, "- `%s`: %s.\n", policy_at(i)->name, policy_at(i)->summary);
    }
    fputc('\n', out);
}

void config_manual_write_markdown(FILE *out)
{
    const struct config_option_group *group;
    const struct config_option *option;

    fprintf(out, "# Configuration\n\n%s\n\n%s\n\n", file_text, flag_text);
    fprintf(out, "```yaml\n%s```\n\n", config_manual_example);
    write_markdown_values(out);
    fputs("## Options\n\n", out);
    for (uint32_t g = 0; (group = config_option_group_at(g)) != NULL; g++) {
        fprintf(out, "### %s\n\n%s\n\n", group->title, group->text);
        for (uint32_t i = 0; (option = row_of_group(group, i)) != NULL; i++) {
            write_markdown_row(out, "", option, false);
            for (uint32_t k = 0; option->items != NULL && k < option->items->count; k++) {
                char owner[config_flag_size_max];
                snprintf(owner, sizeof(owner), "%s[].", option->name);
                write_markdown_row(out, owner, &option->items->rows[k], k == 0);
            }
        }
    }
    fputs("This page is generated from `src/config/option/options.def`.\n", out);
}
