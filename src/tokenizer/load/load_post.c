// SPDX-License-Identifier: Apache-2.0
//
// The post-processor: the ids that are put around a text.  Several in a row wrap each other.

#include "base/base.h"
#include "json/json.h"
#include "tokenizer/tokenizer_internal.h"

static bool refuse_many_specials(struct tokenizer_draft *load)
{
    return load_refuse(load, "a post_processor that adds more than %d ids is not supported",
                       special_ids_max);
}

// Puts ids around those of earlier processors.
static bool wrap_specials(struct tokenizer_draft *load, const struct special_ids *before,
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
    return true;
}

static bool add_special_id(struct tokenizer_draft *load, const struct json_value *value,
                           struct special_ids *ids)
{
    uint64_t id;
    if (!json_uint(value, &id) || id >= id_limit) {
        return load_refuse(load, "the post_processor has an id that does not exist");
    }
    if (ids->count == special_ids_max) {
        return refuse_many_specials(load);
    }
    ids->ids[ids->count++] = (uint32_t)id;
    return true;
}

static bool add_special_ids(struct tokenizer_draft *load, struct slice array,
                            struct special_ids *ids)
{
    struct json json = json_inside(array);
    struct json_item item;
    bool is_added = true;

    while (is_added && json_next_whole(&json, &item)) {
        is_added = add_special_id(load, &item.value, ids);
    }
    return is_added;
}

// The ids of the special token with that name, from the processor's own list.
static bool add_named_special(struct tokenizer_draft *load, struct slice specials,
                              struct slice name, struct special_ids *ids)
{
    struct json json = json_inside(specials);
    struct json_item item;

    while (json_next_whole(&json, &item)) {
        struct load_string key;
        const struct json_value text = {.kind = JSON_STRING, .raw = item.key};
        if (!load_string(load, &text, "the name of a special token", &key)) {
            return false;
        }
        if (!slice_equal(key.text, name)) {
            continue;
        }
        struct json_value found = json_member(&item.value, "ids");
        if (found.kind == JSON_ARRAY) {
            return add_special_ids(load, found.raw, ids);
        }
    }
    return load_refuse(load, "TemplateProcessing has no ids for \"%s\"", load_excerpt(name).text);
}

struct post_template {
    struct slice specials;
    struct special_ids before;
    struct special_ids behind;
    bool has_text;
};

// {"SpecialToken": {"id": ...}} or {"Sequence": {"id": "A"}}
static bool read_template_piece(struct tokenizer_draft *load, const struct json_value *object,
                                struct post_template *template)
{
    struct json_value special = json_member(object, "SpecialToken");
    struct json_value text = json_member(object, "Sequence");
    struct json_value id = json_member(special.kind == JSON_OBJECT ? &special : &text, "id");
    struct load_string name;

    if (!load_string(load, &id, "the id in a piece of TemplateProcessing", &name)) {
        return false;
    }
    if (special.kind == JSON_OBJECT) {
        return add_named_special(load, template->specials, name.text,
                                 template->has_text ? &template->behind : &template->before);
    }
    if (!slice_is(name.text, "A") || template->has_text) {
        return load_refuse(load,
                           "TemplateProcessing with a text other than one A is not supported");
    }
    template->has_text = true;
    return true;
}

static bool read_template_post(struct tokenizer_draft *load, const struct json_value *object)
{
    struct json_value single = json_member(object, "single");
    struct json_value specials = json_member(object, "special_tokens");
    struct json_item item;

    if (single.kind != JSON_ARRAY || specials.kind != JSON_OBJECT) {
        return load_refuse(load, "TemplateProcessing has no single or no special_tokens");
    }
    struct post_template template = {.specials = specials.raw};
    struct json json = json_inside(single.raw);
    while (json_next_whole(&json, &item)) {
        if (!read_template_piece(load, &item.value, &template)) {
            return false;
        }
    }
    if (!template.has_text) {
        return load_refuse(load,
                           "TemplateProcessing with a text other than one A is not supported");
    }
    return wrap_specials(load, &template.before, &template.behind);
}

// The member is a pair: ["</s>", 2]
static bool read_named_id(struct tokenizer_draft *load, const struct json_value *object,
                          const char *name, struct special_ids *ids)
{
    struct json_value pair = json_member(object, name);
    struct json_item item;

    if (pair.kind == JSON_ARRAY) {
        struct json json = json_inside(pair.raw);
        bool has_name = json_next_whole(&json, &item);
        if (has_name && json_next_whole(&json, &item)) {
            return add_special_id(load, &item.value, ids);
        }
    }
    return load_refuse(load, "a post_processor of BERT's kind has no cls or no sep");
}

static bool read_cls_sep(struct tokenizer_draft *load, const struct json_value *object)
{
    struct special_ids cls = {0};
    struct special_ids sep = {0};

    return read_named_id(load, object, "cls", &cls) && read_named_id(load, object, "sep", &sep) &&
           wrap_specials(load, &cls, &sep);
}

// It changes offsets, which we do not compute.
static bool read_byte_level_post([[maybe_unused]] struct tokenizer_draft *load,
                                 [[maybe_unused]] const struct json_value *object)
{
    return true;
}

static const struct {
    const char *type;
    bool (*read)(struct tokenizer_draft *load, const struct json_value *object);
} post_kinds[] = {
    {"ByteLevel", read_byte_level_post},
    {"TemplateProcessing", read_template_post},
    {"RobertaProcessing", read_cls_sep},
    {"BertProcessing", read_cls_sep},
};

static bool read_post_kind(struct tokenizer_draft *load, const struct json_value *object,
                           const char *what)
{
    struct json_value type = json_member(object, "type");

    if (object->kind != JSON_OBJECT) {
        return load_refuse(load, "%s is not an object", what);
    }
    for (size_t i = 0; i < ARRAY_COUNT(post_kinds); i++) {
        if (json_is_string(&type, post_kinds[i].type)) {
            return post_kinds[i].read(load, object);
        }
    }
    return load_refuse(load, "post_processor %s is not supported: " LOAD_ADVICE,
                       load_excerpt(type.raw).text);
}

bool load_post_processor(struct tokenizer_draft *load, const struct json_value *value)
{
    struct json_value type = json_member(value, "type");
    struct json_value processors = json_member(value, "processors");
    struct json_item item;
    bool is_read = true;

    if (json_is_unset(value)) {
        return true;
    }
    if (!json_is_string(&type, "Sequence") || processors.kind != JSON_ARRAY) {
        return read_post_kind(load, value, "the post_processor");
    }
    // No file has a Sequence within a Sequence.
    struct json json = json_inside(processors.raw);
    while (is_read && json_next_whole(&json, &item)) {
        is_read = read_post_kind(load, &item.value, "a post_processor");
    }
    return is_read;
}
