// SPDX-License-Identifier: Apache-2.0

#include "template/template.h"

#include "base/base.h"
#include "base/utf8.h"
#include "template/parser_internal.h"

#include <stdio.h>
#include <stdlib.h>

// A copy in which all lines end with LF, and the last newline is gone.
static enum status copy_source(struct template *template, struct slice source,
                               struct template_error *error)
{
    if (source.size > template_source_max) {
        (void)snprintf(error->text, sizeof(error->text), "the template is too long");
        return STATUS_TOO_LARGE;
    }
    if (!utf8_is_valid(source)) {
        (void)snprintf(error->text, sizeof(error->text), "the template is not UTF-8");
        return STATUS_MALFORMED;
    }
    uint8_t *bytes = template_memory_take(&template->memory, source.size + 1);
    if (bytes == NULL) {
        (void)snprintf(error->text, sizeof(error->text), "memory is short");
        return STATUS_EXHAUSTED;
    }
    size_t size = 0;
    for (size_t at = 0; at < source.size; at++) {
        bool is_return = source.bytes[at] == '\r';
        bytes[size++] = is_return ? '\n' : source.bytes[at];
        at += is_return && at + 1 < source.size && source.bytes[at + 1] == '\n';
    }
    if (size > 0 && bytes[size - 1] == '\n') {
        size--;
    }
    ASSERT(size <= source.size);
    template->source = slice_of(bytes, size);
    return STATUS_OK;
}

static enum status parse(struct template *template, struct parser *parser,
                         struct template_error *error)
{
    template->root = parse_node(parser, sizeof(*template->root));
    parser->place.function = template->root;
    parser->function_count = 1;
    parser->lexer = lexer_open(template->source);
    if (!parse_template(parser, &template->root->body)) {
        return parser->status;
    }
    template->root->nesting = (uint16_t)(parser->place.depth_max + 1);
    template->function_count = parser->function_count;

    struct special_names names = {
        .loop = parse_intern(parser, slice_str("loop")),
        .rest = parse_intern(parser, slice_str("varargs")),
        .named = parse_intern(parser, slice_str("kwargs")),
    };
    struct name *messages = parse_intern(parser, slice_str("messages"));
    if (parser->status != STATUS_OK) {
        return parser->status;
    }
    template->loops_over_content =
        template_has_content_loop(messages, parser->loops, parser->assignments);
    return template_resolve(template, &names, error);
}

enum status template_compile(struct slice source, struct template **out,
                             struct template_error *error)
{
    *error = (struct template_error){0};
    struct template *template = calloc(1, sizeof(*template));
    struct parser *parser = calloc(1, sizeof(*parser));
    enum status status = STATUS_EXHAUSTED;

    if (template == NULL || parser == NULL) {
        (void)snprintf(error->text, sizeof(error->text), "memory is short");
        goto out;
    }
    parser->memory = &template->memory;
    parser->error = error;
    status = copy_source(template, source, error);
    if (status != STATUS_OK) {
        goto out;
    }
    status = parse(template, parser, error);
    if (status != STATUS_OK) {
        goto out;
    }
    *out = template;
    template = NULL; // now the caller's

out:
    free(parser);
    template_destroy(&template);
    return status;
}

void template_destroy(struct template **template_ptr)
{
    struct template *template = *template_ptr;
    *template_ptr = NULL;
    if (template != NULL) {
        template_memory_clear(&template->memory);
        free(template);
    }
}

bool template_reads(const struct template *template, struct slice variable)
{
    ASSERT(template->external_count == 0 || template->externals != NULL);
    for (uint32_t i = 0; i < template->external_count; i++) {
        if (slice_equal(template->externals[i].name, variable)) {
            return template->externals[i].function == NULL;
        }
    }
    return false;
}

bool template_loops_over_content(const struct template *template)
{
    return template->loops_over_content;
}
