// SPDX-License-Identifier: Apache-2.0

#include "config/yaml_tree.h"

#include "base/base.h"
#include "config/config.h"
#include "config/config_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

// A list or map whose end has not come yet.
struct yaml_frame {
    struct config_node *container;
    struct config_node **tail; // where the next item or key is linked
    struct config_node *key;   // of a map: waits for its value
};

struct yaml_reader {
    yaml_parser_t parser;
    struct config_memory *memory;
    struct config_error *error;
    struct config_node *root;
    struct yaml_frame frames[config_yaml_depth_max];
    uint32_t depth;
    uint32_t document_count;
    bool ended;
};

__attribute__((format(printf, 3, 4))) static enum status
refuse(struct yaml_reader *reader, const yaml_mark_t *mark, const char *format, ...)
{
    struct config_error *error = reader->error;

    error->line = (uint32_t)mark->line + 1;
    error->column = (uint32_t)mark->column + 1;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return STATUS_MALFORMED;
}

// libyaml gives an offset and no line for bytes that are no UTF-8.
static yaml_mark_t mark_of_offset(struct slice yaml, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < yaml.size; i++) {
        if (yaml.bytes[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((yaml.bytes[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static enum status refuse_syntax(struct yaml_reader *reader, struct slice yaml)
{
    const yaml_parser_t *parser = &reader->parser;
    const char *context = parser->context != NULL ? parser->context : "";

    if (parser->error == YAML_MEMORY_ERROR) {
        return refuse(reader, &parser->mark, "out of memory");
    }
    if (parser->error == YAML_READER_ERROR) {
        yaml_mark_t mark = mark_of_offset(yaml, parser->problem_offset);
        return refuse(reader, &mark, "not a text file in UTF-8: %s", parser->problem);
    }
    if (strcmp(context, "while scanning an alias") == 0) {
        return refuse(reader, &parser->context_mark,
                      "aliases are not accepted; put a text that starts with * in quotes");
    }
    if (strcmp(context, "while scanning an anchor") == 0) {
        return refuse(reader, &parser->context_mark,
                      "anchors are not accepted; put a text that starts with & in quotes");
    }
    return refuse(reader, &parser->problem_mark, "not YAML: %s%s%s",
                  parser->problem != NULL ? parser->problem : "broken",
                  context[0] != '\0' ? " " : "", context);
}

static struct config_node *node_create(struct yaml_reader *reader, enum config_node_kind kind,
                                       const yaml_mark_t *mark)
{
    struct config_node *node = config_memory_take(reader->memory, sizeof(*node));
    if (node != NULL) {
        node->kind = kind;
        node->line = (uint32_t)mark->line + 1;
        node->column = (uint32_t)mark->column + 1;
    }
    return node;
}

static enum status refuse_full(struct yaml_reader *reader, const yaml_mark_t *mark)
{
    enum status malformed = refuse(reader, mark, "the configuration holds too many values");
    (void)malformed;
    return STATUS_TOO_LARGE;
}

// Puts a node where it belongs: the root, the next item, the next key or the value of a key.
static enum status yaml_attach(struct yaml_reader *reader, struct config_node *node,
                               const yaml_mark_t *mark)
{
    if (reader->depth == 0) {
        reader->root = node;
        return STATUS_OK;
    }
    struct yaml_frame *frame = &reader->frames[reader->depth - 1];
    if (frame->key != NULL) {
        frame->key->value = node;
        frame->key = NULL;
        return STATUS_OK;
    }
    if (frame->container->kind == CONFIG_NODE_MAP) {
        if (node->kind != CONFIG_NODE_TEXT) {
            return refuse(reader, mark, "a key must be text");
        }
        frame->key = node;
    }
    *frame->tail = node;
    frame->tail = &node->next;
    frame->container->count++;
    return STATUS_OK;
}

static enum status yaml_read_text(struct yaml_reader *reader, const yaml_event_t *event)
{
    const yaml_mark_t *mark = &event->start_mark;
    struct slice text = slice_of(event->data.scalar.value, event->data.scalar.length);

    if (text.size > 0 && memchr(text.bytes, '\0', text.size) != NULL) {
        return refuse(reader, mark, "a text must not hold the character NUL");
    }
    struct config_node *node = node_create(reader, CONFIG_NODE_TEXT, mark);
    if (node == NULL || (node->text = config_memory_copy(reader->memory, text)) == NULL) {
        return refuse_full(reader, mark);
    }
    node->is_blank = text.size == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return yaml_attach(reader, node, mark);
}

static enum status open_container(struct yaml_reader *reader, enum config_node_kind kind,
                                  const yaml_mark_t *mark)
{
    if (reader->depth == config_yaml_depth_max) {
        return refuse(reader, mark, "nested more than %d deep", config_yaml_depth_max);
    }
    struct config_node *node = node_create(reader, kind, mark);
    if (node == NULL) {
        return refuse_full(reader, mark);
    }
    enum status status = yaml_attach(reader, node, mark);
    if (status == STATUS_OK) {
        reader->frames[reader->depth++] = (struct yaml_frame){
            .container = node,
            .tail = &node->first,
        };
    }
    return status;
}

static enum status refuse_ornament(struct yaml_reader *reader, const yaml_event_t *event,
                                   const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL) {
        return refuse(reader, &event->start_mark, "anchors are not accepted");
    }
    if (tag != NULL) {
        return refuse(reader, &event->start_mark, "tags are not accepted");
    }
    return STATUS_OK;
}

static enum status begin_document(struct yaml_reader *reader, const yaml_event_t *event)
{
    if (reader->document_count++ > 0) {
        return refuse(reader, &event->start_mark, "a second document; a file holds one");
    }
    return STATUS_OK;
}

static enum status yaml_read_event(struct yaml_reader *reader, const yaml_event_t *event)
{
    const yaml_mark_t *mark = &event->start_mark;
    enum status status;

    switch (event->type) {
    case YAML_SCALAR_EVENT:
        status = refuse_ornament(reader, event, event->data.scalar.anchor, event->data.scalar.tag);
        return status == STATUS_OK ? yaml_read_text(reader, event) : status;
    case YAML_SEQUENCE_START_EVENT:
        status = refuse_ornament(reader, event, event->data.sequence_start.anchor,
                                 event->data.sequence_start.tag);
        return status == STATUS_OK ? open_container(reader, CONFIG_NODE_LIST, mark) : status;
    case YAML_MAPPING_START_EVENT:
        status = refuse_ornament(reader, event, event->data.mapping_start.anchor,
                                 event->data.mapping_start.tag);
        return status == STATUS_OK ? open_container(reader, CONFIG_NODE_MAP, mark) : status;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        ASSERT(reader->depth > 0 && reader->frames[reader->depth - 1].key == NULL);
        reader->depth--;
        return STATUS_OK;
    case YAML_ALIAS_EVENT:
        return refuse(reader, mark,
                      "aliases are not accepted; put a text that starts with * in quotes");
    case YAML_DOCUMENT_START_EVENT:
        return begin_document(reader, event);
    case YAML_STREAM_END_EVENT:
        reader->ended = true;
        return STATUS_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return STATUS_OK;
    }
    return STATUS_OK;
}

enum status config_yaml_read(struct slice yaml, struct config_memory *memory,
                             struct config_node **out, struct config_error *error)
{
    struct yaml_reader reader = {.memory = memory, .error = error};
    enum status status = STATUS_OK;

    if (yaml_parser_initialize(&reader.parser) == 0) {
        yaml_mark_t start = {0};
        return refuse(&reader, &start, "out of memory");
    }
    yaml_parser_set_input_string(&reader.parser, yaml.bytes, yaml.size);
    // Said and not guessed: a byte order mark would let UTF-16 in.
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);

    while (status == STATUS_OK && !reader.ended) {
        yaml_event_t event;
        if (yaml_parser_parse(&reader.parser, &event) == 0) {
            status = refuse_syntax(&reader, yaml);
            break;
        }
        status = yaml_read_event(&reader, &event);
        yaml_event_delete(&event);
    }
    if (status == STATUS_OK) {
        ASSERT(reader.depth == 0);
        bool blank = reader.root != NULL && reader.root->is_blank;
        *out = blank ? NULL : reader.root;
    }
    yaml_parser_delete(&reader.parser);
    return status;
}
