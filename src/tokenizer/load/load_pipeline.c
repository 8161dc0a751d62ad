// SPDX-License-Identifier: Apache-2.0
//
// Normalizer and pre-tokenizer: the steps from a gap to pieces.
//
// Both are lists of small steps in the file, and combinations mean more than their parts: a Replace
// of spaces with a Prepend is SentencePiece, three Splits in a row are DeepSeek's.  So the steps
// are noted first, and then compared with the few combinations that are implemented.  All others
// are refused by name, even if they mean the same: few programs write such files.

#include "base/base.h"
#include "tokenizer/tokenizer_internal.h"

enum { step_count_max = 8, pattern_count_max = 4 };

enum pipeline_step {
    STEP_SPLIT,    // by a pattern
    STEP_NO_SPLIT, // by a space, after Replace has left no space
    STEP_DIGITS,
    STEP_BYTE_LEVEL,
    STEP_METASPACE,
};

struct pipeline_draft {
    struct tokenizer_draft *load;

    uint32_t nfc_count;
    uint32_t replace_count;
    uint32_t prepend_count;

    enum pipeline_step steps[step_count_max];
    uint32_t step_count;
    struct load_string patterns[pattern_count_max];
    uint32_t pattern_count;
    bool removes_unmatched; // text that no pattern matches vanishes
    bool has_prefix_space;
    bool has_regex;
    bool splits;
    enum space_rule space_rule;
};

struct pipeline_component {
    const char *type;
    enum status (*read)(struct pipeline_draft *draft,
                        const struct json_value *object); // NULL: refused
};

// Refuses components without a row, too.
static enum status read_component(struct pipeline_draft *draft, const struct json_value *object,
                                  const char *what, const struct pipeline_component *components)
{
    static const char *const names[] = {"type"};
    struct json_value type = {0};

    enum status status = load_fields(draft->load, object, what, names, 1, &type);
    if (status != STATUS_OK) {
        return status;
    }
    const struct pipeline_component *component = components;
    while (component->type != NULL &&
           !(type.kind == JSON_STRING && slice_is(type.raw, component->type))) {
        component++;
    }
    if (component->type != NULL && component->read != NULL) {
        return component->read(draft, object);
    }
    return load_refuse(draft->load->error, "%s %s is not %s: " LOAD_ADVICE, what,
                       load_excerpt(type.raw).text,
                       component->type != NULL ? "supported" : "known");
}

static enum status read_components(struct pipeline_draft *draft, const struct json_value *array,
                                   const char *what, const struct pipeline_component *components)
{
    struct json_item item;
    enum status status = STATUS_OK;

    if (array->kind != JSON_ARRAY) {
        return load_refuse(draft->load->error, "%s Sequence has no list", what);
    }
    struct json json = load_open(array->raw);
    while (status == STATUS_OK && load_next(&json, &item)) {
        status = read_component(draft, &item.value, what, components);
    }
    return status;
}

static enum status read_nfc(struct pipeline_draft *draft,
                            [[maybe_unused]] const struct json_value *object)
{
    draft->nfc_count++;
    return STATUS_OK;
}

// Whether it is {"String": text}.
static bool is_string_pattern(const struct json_value *pattern, const char *text)
{
    static const char *const names[] = {"String"};
    struct json_value string = {0};
    return pattern->kind == JSON_OBJECT &&
           json_find(pattern->raw, names, 1, &string) == STATUS_OK && string.kind == JSON_STRING &&
           json_string_is(string.raw, text);
}

static enum status read_replace(struct pipeline_draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"pattern", "content"};
    struct json_value fields[2] = {0};

    enum status status = load_fields(draft->load, object, "normalizer Replace", names, 2, fields);
    if (status != STATUS_OK) {
        return status;
    }
    if (!is_string_pattern(&fields[0], " ") || fields[1].kind != JSON_STRING ||
        !json_string_is(fields[1].raw, SPACE_MARK)) {
        return load_refuse(draft->load->error, "normalizer Replace of anything but a space by "
                                               "U+2581 is not supported: " LOAD_ADVICE);
    }
    draft->replace_count++;
    return STATUS_OK;
}

static enum status read_prepend(struct pipeline_draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"prepend"};
    struct json_value prepend = {0};

    enum status status = load_fields(draft->load, object, "normalizer Prepend", names, 1, &prepend);
    if (status != STATUS_OK) {
        return status;
    }
    if (prepend.kind != JSON_STRING || !json_string_is(prepend.raw, SPACE_MARK)) {
        return load_refuse(draft->load->error, "normalizer Prepend of anything but U+2581 is not "
                                               "supported: " LOAD_ADVICE);
    }
    draft->prepend_count++;
    return STATUS_OK;
}

static enum status read_normalizers(struct pipeline_draft *draft, const struct json_value *object);

static const struct pipeline_component normalizers[] = {
    {"NFC", read_nfc},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Sequence", read_normalizers},
    {"BertNormalizer", NULL},
    {"ByteLevel", NULL},
    {"Lowercase", NULL},
    {"NFD", NULL},
    {"NFKC", NULL},
    {"NFKD", NULL},
    {"Nmt", NULL},
    {"Precompiled", NULL},
    {"Strip", NULL},
    {"StripAccents", NULL},
    {NULL, NULL},
};

static enum status read_normalizers(struct pipeline_draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"normalizers"};
    struct json_value list = {0};

    enum status status = load_fields(draft->load, object, "normalizer Sequence", names, 1, &list);
    if (status != STATUS_OK) {
        return status;
    }
    return read_components(draft, &list, "normalizer", normalizers);
}

static enum status add_pipeline_step(struct pipeline_draft *draft, enum pipeline_step kind)
{
    if (draft->step_count == step_count_max) {
        return load_refuse(draft->load->error,
                           "a pre_tokenizer of more than %d steps is not "
                           "supported: " LOAD_ADVICE,
                           step_count_max);
    }
    draft->steps[draft->step_count++] = kind;
    return STATUS_OK;
}

static enum status refuse_behavior(struct pipeline_draft *draft, const struct json_value *behavior,
                                   bool inverts)
{
    return load_refuse(draft->load->error,
                       "pre_tokenizer Split with behavior %s%s is not supported: " LOAD_ADVICE,
                       load_excerpt(behavior->raw).text, inverts ? ", inverted," : "");
}

static enum status add_split_pattern(struct pipeline_draft *draft, const struct json_value *pattern)
{
    static const char *const names[] = {"Regex"};
    struct json_value regex = {0};

    enum status status =
        load_fields(draft->load, pattern, "the pattern of a Split", names, 1, &regex);
    if (status != STATUS_OK) {
        return status;
    }
    if (regex.kind != JSON_STRING) {
        return load_refuse(draft->load->error, "pre_tokenizer Split by a string is not supported "
                                               "without a Replace of spaces: " LOAD_ADVICE);
    }
    if (draft->pattern_count == pattern_count_max) {
        return load_refuse(draft->load->error,
                           "a pre_tokenizer of more than %d Splits is not "
                           "supported: " LOAD_ADVICE,
                           pattern_count_max);
    }
    status = load_string(draft->load, &regex, "the Regex of a Split",
                         &draft->patterns[draft->pattern_count]);
    if (status == STATUS_OK) {
        draft->pattern_count++;
        status = add_pipeline_step(draft, STEP_SPLIT);
    }
    return status;
}

static enum status read_split_step(struct pipeline_draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"pattern", "behavior", "invert"};
    struct json_value fields[3] = {0};
    bool inverts = false;

    enum status status = load_fields(draft->load, object, "pre_tokenizer Split", names, 3, fields);
    if (status == STATUS_OK) {
        status = load_bool(draft->load, &fields[2], "invert", false, &inverts);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct json_value *behavior = &fields[1];
    if (behavior->kind != JSON_STRING) {
        return refuse_behavior(draft, behavior, inverts);
    }
    if (draft->replace_count > 0 && !inverts && is_string_pattern(&fields[0], " ")) {
        return add_pipeline_step(draft, STEP_NO_SPLIT);
    }
    // Removed and inverted keeps the matches, as Isolated does if everything is matched.
    bool removes = inverts && slice_is(behavior->raw, "Removed");
    if (!removes && !slice_is(behavior->raw, "Isolated")) {
        return refuse_behavior(draft, behavior, inverts);
    }
    draft->removes_unmatched |= removes;
    return add_split_pattern(draft, &fields[0]);
}

static enum status read_digits_step(struct pipeline_draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"individual_digits"};
    struct json_value individual = {0};

    enum status status =
        load_fields(draft->load, object, "pre_tokenizer Digits", names, 1, &individual);
    if (status != STATUS_OK) {
        return status;
    }
    if (!json_is_true(&individual)) {
        return load_refuse(draft->load->error, "pre_tokenizer Digits without individual_digits is "
                                               "not supported: " LOAD_ADVICE);
    }
    return add_pipeline_step(draft, STEP_DIGITS);
}

static enum status read_byte_level_step(struct pipeline_draft *draft,
                                        const struct json_value *object)
{
    static const char *const names[] = {"add_prefix_space", "use_regex"};
    struct json_value fields[2] = {0};

    enum status status =
        load_fields(draft->load, object, "pre_tokenizer ByteLevel", names, 2, fields);
    if (status == STATUS_OK) {
        status =
            load_bool(draft->load, &fields[0], "add_prefix_space", false, &draft->has_prefix_space);
    }
    if (status == STATUS_OK) {
        // Files from before the choice always split.
        status = load_bool(draft->load, &fields[1], "use_regex", true, &draft->has_regex);
    }
    return status == STATUS_OK ? add_pipeline_step(draft, STEP_BYTE_LEVEL) : status;
}

static enum status read_space_scheme(struct pipeline_draft *draft, const struct json_value *scheme,
                                     const struct json_value *prefix)
{
    static const struct {
        const char *name;
        enum space_rule rule;
    } schemes[] = {
        {"always", SPACE_UNLESS_THERE},
        {"first", SPACE_FIRST},
        {"never", SPACE_NOWHERE},
    };

    if (scheme->kind == JSON_STRING) {
        for (size_t i = 0; i < ARRAY_COUNT(schemes); i++) {
            if (slice_is(scheme->raw, schemes[i].name)) {
                draft->space_rule = schemes[i].rule;
                // The two spellings together must agree.
                bool agrees = prefix->kind != JSON_BOOL ||
                              json_is_true(prefix) == (schemes[i].rule != SPACE_NOWHERE);
                return agrees ? STATUS_OK
                              : load_refuse(draft->load->error,
                                            "Metaspace has an add_prefix_space that is not its "
                                            "prepend_scheme");
            }
        }
    }
    if (scheme->kind == JSON_STRING || prefix->kind != JSON_BOOL) {
        return load_refuse(draft->load->error, "Metaspace has no prepend_scheme that is known");
    }
    draft->space_rule = json_is_true(prefix) ? SPACE_UNLESS_THERE : SPACE_NOWHERE;
    return STATUS_OK;
}

static enum status read_metaspace(struct pipeline_draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"replacement", "prepend_scheme", "add_prefix_space",
                                        "split"};
    struct json_value fields[4] = {0};

    enum status status =
        load_fields(draft->load, object, "pre_tokenizer Metaspace", names, 4, fields);
    if (status != STATUS_OK) {
        return status;
    }
    if (fields[0].kind != JSON_STRING || !json_string_is(fields[0].raw, SPACE_MARK)) {
        return load_refuse(draft->load->error, "Metaspace with a replacement other than U+2581 is "
                                               "not supported: " LOAD_ADVICE);
    }
    status = read_space_scheme(draft, &fields[1], &fields[2]);
    if (status == STATUS_OK) {
        status = load_bool(draft->load, &fields[3], "split", true, &draft->splits);
    }
    return status == STATUS_OK ? add_pipeline_step(draft, STEP_METASPACE) : status;
}

static enum status read_pre_tokenizers(struct pipeline_draft *draft,
                                       const struct json_value *object);

static const struct pipeline_component pre_tokenizers[] = {
    {"ByteLevel", read_byte_level_step},
    {"Digits", read_digits_step},
    {"Metaspace", read_metaspace},
    {"Sequence", read_pre_tokenizers},
    {"Split", read_split_step},
    {"BertPreTokenizer", NULL},
    {"CharDelimiterSplit", NULL},
    {"FixedLength", NULL},
    {"Punctuation", NULL},
    {"UnicodeScripts", NULL},
    {"Whitespace", NULL},
    {"WhitespaceSplit", NULL},
    {NULL, NULL},
};

static enum status read_pre_tokenizers(struct pipeline_draft *draft,
                                       const struct json_value *object)
{
    static const char *const names[] = {"pretokenizers"};
    struct json_value list = {0};

    enum status status =
        load_fields(draft->load, object, "pre_tokenizer Sequence", names, 1, &list);
    if (status != STATUS_OK) {
        return status;
    }
    return read_components(draft, &list, "pre_tokenizer", pre_tokenizers);
}

static bool are_steps(const struct pipeline_draft *draft, uint32_t count, enum pipeline_step first,
                      enum pipeline_step second)
{
    return draft->step_count == count && (count < 1 || draft->steps[0] == first) &&
           (count < 2 || draft->steps[1] == second);
}

static enum status refuse_split_pattern(const struct pipeline_draft *draft)
{
    return load_refuse(draft->load->error,
                       "pre_tokenizer Split by a Regex that is not known: " LOAD_ADVICE
                       "; it begins with %s",
                       load_excerpt(draft->patterns[0].text).text);
}

// Splits, and then ByteLevel.
static enum status find_split_pattern(struct pipeline_draft *draft, struct pipeline *pipeline)
{
    struct slice patterns[pattern_count_max];

    if (draft->has_regex || draft->has_prefix_space) {
        return load_refuse(draft->load->error, "ByteLevel with use_regex or add_prefix_space "
                                               "after a Split is not supported: " LOAD_ADVICE);
    }
    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        patterns[i] = draft->patterns[i].text;
    }
    if (!split_find(patterns, draft->pattern_count, &pipeline->split)) {
        return refuse_split_pattern(draft);
    }
    // Every pattern but DeepSeek's matches every character.
    if (draft->removes_unmatched && pipeline->split == SPLIT_DSV3) {
        return load_refuse(draft->load->error, "pre_tokenizer Split with behavior Removed and "
                                               "this Regex is not supported: " LOAD_ADVICE);
    }
    return STATUS_OK;
}

static enum status find_byte_level(struct pipeline_draft *draft, struct pipeline *pipeline)
{
    if (draft->replace_count > 0 || draft->prepend_count > 0) {
        return load_refuse(draft->load->error, "normalizer Replace or Prepend with ByteLevel is "
                                               "not supported: " LOAD_ADVICE);
    }
    draft->load->spells_bytes = true;
    if (draft->step_count == draft->pattern_count + 1 && draft->pattern_count > 0) {
        return find_split_pattern(draft, pipeline);
    }
    if (are_steps(draft, 1, STEP_BYTE_LEVEL, 0)) {
        pipeline->split = draft->has_regex ? SPLIT_GPT2 : SPLIT_NONE;
        pipeline->space_rule = draft->has_prefix_space ? SPACE_UNLESS_THERE : SPACE_NOWHERE;
        return STATUS_OK;
    }
    if (are_steps(draft, 2, STEP_DIGITS, STEP_BYTE_LEVEL) && draft->has_regex &&
        !draft->has_prefix_space) {
        pipeline->split = SPLIT_DIGITS_GPT2;
        return STATUS_OK;
    }
    return load_refuse(draft->load->error,
                       "this combination of pre_tokenizers is not supported: " LOAD_ADVICE);
}

static enum status find_sentence_piece(const struct pipeline_draft *draft,
                                       struct pipeline *pipeline)
{
    bool has_metaspace = are_steps(draft, 1, STEP_METASPACE, 0);
    bool has_nothing = are_steps(draft, 0, 0, 0) || are_steps(draft, 1, STEP_NO_SPLIT, 0);

    pipeline->by_character = true;
    if (has_metaspace && draft->replace_count == 0 && draft->prepend_count == 0) {
        pipeline->space_rule = draft->space_rule;
        pipeline->splits_at_spaces = draft->splits;
        return STATUS_OK;
    }
    if (has_nothing && draft->replace_count == 1 && draft->prepend_count <= 1) {
        pipeline->replaces_spaces = true;
        pipeline->space_rule = draft->prepend_count == 1 ? SPACE_EACH_GAP : SPACE_NOWHERE;
        return STATUS_OK;
    }
    return load_refuse(draft->load->error, "a pre_tokenizer without ByteLevel, Metaspace or a "
                                           "Replace of spaces is not supported: " LOAD_ADVICE);
}

enum status load_pipeline(struct tokenizer_draft *load, const struct json_value *normalizer,
                          const struct json_value *pre_tokenizer)
{
    struct pipeline_draft draft = {.load = load};
    struct pipeline pipeline = {0};
    enum status status = STATUS_OK;

    if (normalizer->kind != JSON_ABSENT && normalizer->kind != JSON_NULL) {
        status = read_component(&draft, normalizer, "normalizer", normalizers);
    }
    if (status == STATUS_OK && pre_tokenizer->kind != JSON_ABSENT &&
        pre_tokenizer->kind != JSON_NULL) {
        status = read_component(&draft, pre_tokenizer, "pre_tokenizer", pre_tokenizers);
    }
    if (status != STATUS_OK) {
        return status;
    }
    ASSERT(draft.step_count <= step_count_max && draft.pattern_count <= pattern_count_max);
    pipeline.is_nfc = draft.nfc_count > 0;
    bool has_bytes = draft.step_count > 0 && draft.steps[draft.step_count - 1] == STEP_BYTE_LEVEL;
    status =
        has_bytes ? find_byte_level(&draft, &pipeline) : find_sentence_piece(&draft, &pipeline);
    if (status == STATUS_OK) {
        load->pipeline = pipeline;
    }
    return status;
}
