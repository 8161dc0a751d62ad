// SPDX-License-Identifier: Apache-2.0
//
// The post-processor: the ids that are put around a text.  Several in a row wrap_specials each
// other.

#include "base/base.h"
#include "json/json.h"
#include "tokenizer/tokenizer_internal.h"

typedef enum status post_read_fn(struct tokenizer_draft *load, const struct json_value *object);

static enum status refuse_many_specials(struct tokenizer_draft *load)
{
    return load_refuse(load->error, "a post_processor that adds more than %d ids is not supported",
                       special_ids_max);
}

// Puts ids around those of earlier processors.
static enum status wrap_specials(struct tokenizer_draft *load, const struct special_ids *before,
                                 const struct special_ids *behind)
{
    if (before->count + load->before.count > special_ids_max ||
        behind->count + load->behind.count > special_ids_max) {
        return refuse_many_specials(load);
    }
    struct special_ids joined = *before;
    for (uint32_t i = 0; i < load->before.count; i++) {
        joined.ids[joined.count++] = load->before.ids[i];
    }
    load->before = joined;
    for (uint32_t i = 0; i < behind->count; i++) {
        load->behind.ids[load->behind.count++] = behind->ids[i];
    }
    return STATUS_OK;
}

static enum status add_special_id(struct tokenizer_draft *load, const struct json_value *value,
                                  struct special_ids *ids)
{
    uint64_t id;
    if (!json_uint(value, &id) || id >= id_limit) {
        return load_refuse(load->error, "the post_processor has an id that does not exist");
    }
    if (ids->count == special_ids_max) {
        return refuse_many_specials(load);
    }
    ids->ids[ids->count++] = (uint32_t)id;
    return STATUS_OK;
}

static enum status add_special_ids(struct tokenizer_draft *load, struct slice array,
                                   struct special_ids *ids)
{
    struct json json = load_open(array);
    struct json_item item;
    enum status status = STATUS_OK;

    while (status == STATUS_OK && load_next(&json, &item)) {
        status = add_special_id(load, &item.value, ids);
    }
    return status;
}

// The ids of the special token with that name, from the processor's own list.
static enum status add_named_special(struct tokenizer_draft *load, struct slice specials,
                                     struct slice name, struct special_ids *ids)
{
    static const char *const names[] = {"ids"};
    struct json json = load_open(specials);
    struct json_item item;

    while (load_next(&json, &item)) {
        struct load_string key;
        const struct json_value text = {.kind = JSON_STRING, .raw = item.key};
        enum status status = load_string(load, &text, "the name of a special token", &key);
        if (status != STATUS_OK) {
            return status;
        }
        if (!slice_equal(key.text, name)) {
            continue;
        }
        struct json_value found = {0};
        status = load_fields(load, &item.value, "a special token", names, 1, &found);
        if (status != STATUS_OK) {
            return status;
        }
        if (found.kind == JSON_ARRAY) {
            return add_special_ids(load, found.raw, ids);
        }
    }
    return load_refuse(load->error, "TemplateProcessing has no ids for \"%s\"",
                       load_excerpt(name).text);
}

struct post_template {
    struct slice specials;
    struct special_ids before;
    struct special_ids behind;
    bool has_text;
};

// {"SpecialToken": {"id": ...}} or {"Sequence": {"id": "A"}}
static enum status read_template_piece(struct tokenizer_draft *load,
                                       const struct json_value *object,
                                       struct post_template *template)
{
    static const char *const piece_kinds[] = {"SpecialToken", "Sequence"};
    static const char *const names[] = {"id"};
    struct json_value pieces[2] = {0};
    struct json_value id = {0};
    struct load_string name;

    enum status status =
        load_fields(load, object, "a piece of TemplateProcessing", piece_kinds, 2, pieces);
    const struct json_value *piece = pieces[0].kind == JSON_OBJECT ? &pieces[0] : &pieces[1];
    if (status == STATUS_OK) {
        status = load_fields(load, piece, "a piece of TemplateProcessing", names, 1, &id);
    }
    if (status == STATUS_OK) {
        status = load_string(load, &id, "the id in a piece of TemplateProcessing", &name);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (piece == &pieces[0]) {
        return add_named_special(load, template->specials, name.text,
                                 template->has_text ? &template->behind : &template->before);
    }
    if (!slice_is(name.text, "A") || template->has_text) {
        return load_refuse(load->error,
                           "TemplateProcessing with a text other than one A is not supported");
    }
    template->has_text = true;
    return STATUS_OK;
}

static enum status read_template_post(struct tokenizer_draft *load, const struct json_value *object)
{
    static const char *const names[] = {"single", "special_tokens"};
    struct json_value fields[2] = {0};
    struct json_item item;

    enum status status = load_fields(load, object, "TemplateProcessing", names, 2, fields);
    if (status != STATUS_OK) {
        return status;
    }
    if (fields[0].kind != JSON_ARRAY || fields[1].kind != JSON_OBJECT) {
        return load_refuse(load->error, "TemplateProcessing has no single or no special_tokens");
    }
    struct post_template template = {.specials = fields[1].raw};
    struct json json = load_open(fields[0].raw);
    while (status == STATUS_OK && load_next(&json, &item)) {
        status = read_template_piece(load, &item.value, &template);
    }
    if (status == STATUS_OK && !template.has_text) {
        status = load_refuse(load->error,
                             "TemplateProcessing with a text other than one A is not supported");
    }
    return status == STATUS_OK ? wrap_specials(load, &template.before, &template.behind) : status;
}

// ["</s>", 2]
static enum status read_named_id(struct tokenizer_draft *load, const struct json_value *value,
                                 struct special_ids *ids)
{
    struct json_item item;

    if (value->kind == JSON_ARRAY) {
        struct json json = load_open(value->raw);
        bool has_name = load_next(&json, &item);
        if (has_name && load_next(&json, &item)) {
            return add_special_id(load, &item.value, ids);
        }
    }
    return load_refuse(load->error, "a post_processor of BERT's kind has no cls or no sep");
}

static enum status read_cls_sep(struct tokenizer_draft *load, const struct json_value *object)
{
    static const char *const names[] = {"cls", "sep"};
    struct json_value fields[2] = {0};
    struct special_ids cls = {0};
    struct special_ids sep = {0};

    enum status status = load_fields(load, object, "the post_processor", names, 2, fields);
    if (status == STATUS_OK) {
        status = read_named_id(load, &fields[0], &cls);
    }
    if (status == STATUS_OK) {
        status = read_named_id(load, &fields[1], &sep);
    }
    return status == STATUS_OK ? wrap_specials(load, &cls, &sep) : status;
}

// It changes offsets, which we do not compute.
static enum status read_byte_level_post([[maybe_unused]] struct tokenizer_draft *load,
                                        [[maybe_unused]] const struct json_value *object)
{
    return STATUS_OK;
}

static const struct {
    const char *type;
    post_read_fn *read;
} post_kinds[] = {
    {"ByteLevel", read_byte_level_post},
    {"TemplateProcessing", read_template_post},
    {"RobertaProcessing", read_cls_sep},
    {"BertProcessing", read_cls_sep},
};

static enum status read_post_kind(struct tokenizer_draft *load, const struct json_value *type,
                                  const struct json_value *object)
{
    if (type->kind == JSON_STRING) {
        for (size_t i = 0; i < ARRAY_COUNT(post_kinds); i++) {
            if (slice_is(type->raw, post_kinds[i].type)) {
                return post_kinds[i].read(load, object);
            }
        }
    }
    return load_refuse(load->error, "post_processor %s is not supported: " LOAD_ADVICE,
                       load_excerpt(type->raw).text);
}

// A Sequence within a Sequence occurs nowhere.
static enum status read_post_sequence(struct tokenizer_draft *load, struct slice array)
{
    static const char *const names[] = {"type"};
    struct json json = load_open(array);
    struct json_item item;
    enum status status = STATUS_OK;

    while (status == STATUS_OK && load_next(&json, &item)) {
        struct json_value type = {0};
        status = load_fields(load, &item.value, "a post_processor", names, 1, &type);
        if (status == STATUS_OK) {
            status = read_post_kind(load, &type, &item.value);
        }
    }
    return status;
}

enum status load_post_processor(struct tokenizer_draft *load, const struct json_value *value)
{
    static const char *const names[] = {"type", "processors"};
    struct json_value fields[2] = {0};

    if (value->kind == JSON_ABSENT || value->kind == JSON_NULL) {
        return STATUS_OK;
    }
    enum status status = load_fields(load, value, "the post_processor", names, 2, fields);
    if (status != STATUS_OK) {
        return status;
    }
    if (fields[0].kind == JSON_STRING && slice_is(fields[0].raw, "Sequence") &&
        fields[1].kind == JSON_ARRAY) {
        return read_post_sequence(load, fields[1].raw);
    }
    return read_post_kind(load, &fields[0], value);
}
