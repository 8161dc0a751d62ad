// SPDX-License-Identifier: Apache-2.0
//
// Normalizer and pre-tokenizer: what a file does with a gap before merging.
//
// Both are lists of small steps in the file, and combinations mean more than their parts: a Replace of
// spaces with a Prepend is SentencePiece, three Splits in a row are DeepSeek's.  So the steps are noted
// first, and then the few combinations that are implemented are looked for.  Everything else is refused
// by name, also what would mean the same by some argument: files are written by few programs.

#include "base/base.h"
#include "tokenizer/tokenizer_internal.h"

enum { step_count_max = 8, pattern_count_max = 4 };

enum step_kind {
    STEP_SPLIT,    // by a pattern
    STEP_NO_SPLIT, // by a space, of which Replace has left none
    STEP_DIGITS,
    STEP_BYTE_LEVEL,
    STEP_METASPACE,
};

struct draft {
    struct load *load;

    uint32_t nfc_count;
    uint32_t replace_count;
    uint32_t prepend_count;

    enum step_kind steps[step_count_max];
    uint32_t step_count;
    struct load_string patterns[pattern_count_max];
    uint32_t pattern_count;
    bool removes_unmatched; // what no pattern matches vanishes
    bool has_prefix_space;
    bool has_regex;
    bool splits;
    enum space_rule space_rule;
};

struct component {
    const char *type;
    enum status (*read)(struct draft *draft, const struct json_value *object); // NULL: refused
};

// Also says no to what has no row.
static enum status read_component(struct draft *draft, const struct json_value *object,
                                  const char *what, const struct component *components)
{
    static const char *const names[] = {"type"};
    struct json_value type = {0};

    enum status status = load_fields(draft->load, object, what, names, 1, &type);
    if (status != STATUS_OK) {
        return status;
    }
    const struct component *component = components;
    while (component->type != NULL &&
           !(type.kind == JSON_STRING && slice_is(type.raw, component->type))) {
        component++;
    }
    if (component->type != NULL && component->read != NULL) {
        return component->read(draft, object);
    }
    struct slice head = load_head(type.raw, 60);
    return load_refuse(draft->load->error, "%s %.*s is not %s: " LOAD_ADVICE, what, (int)head.size,
                       (const char *)head.bytes, component->type != NULL ? "supported" : "known");
}

static enum status read_list(struct draft *draft, const struct json_value *array, const char *what,
                             const struct component *components)
{
    struct json json = json_open(array->raw);
    struct json_item item;
    enum status status = STATUS_OK;

    if (array->kind != JSON_ARRAY || !json_next(&json, &item)) {
        return load_refuse(draft->load->error, "%s Sequence has no list", what);
    }
    json_enter(&json);
    while (status == STATUS_OK && json_next(&json, &item)) {
        bool is_whole = json_skip(&json, &item.value);
        ASSERT(is_whole); // the text was read before
        status = read_component(draft, &item.value, what, components);
    }
    return status;
}

static enum status read_nfc(struct draft *draft, const struct json_value *object)
{
    (void)object;
    draft->nfc_count++;
    return STATUS_OK;
}

// {"String": "x"}: whether it is that.
static bool is_string_pattern(const struct json_value *pattern, const char *text)
{
    static const char *const names[] = {"String"};
    struct json_value string = {0};
    return pattern->kind == JSON_OBJECT &&
           json_find(pattern->raw, names, 1, &string) == STATUS_OK && string.kind == JSON_STRING &&
           json_string_is(string.raw, text);
}

static enum status read_replace(struct draft *draft, const struct json_value *object)
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

static enum status read_prepend(struct draft *draft, const struct json_value *object)
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

static enum status read_normalizers(struct draft *draft, const struct json_value *object);

static const struct component normalizers[] = {
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

static enum status read_normalizers(struct draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"normalizers"};
    struct json_value list = {0};

    enum status status = load_fields(draft->load, object, "normalizer Sequence", names, 1, &list);
    if (status != STATUS_OK) {
        return status;
    }
    return read_list(draft, &list, "normalizer", normalizers);
}

static enum status add_step(struct draft *draft, enum step_kind kind)
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

static enum status refuse_behavior(struct draft *draft, const struct json_value *behavior,
                                   bool inverts)
{
    struct slice head = load_head(behavior->raw, 60);
    return load_refuse(draft->load->error,
                       "pre_tokenizer Split with behavior %.*s%s is not supported: " LOAD_ADVICE,
                       (int)head.size, (const char *)head.bytes, inverts ? ", inverted," : "");
}

static enum status add_pattern(struct draft *draft, const struct json_value *pattern)
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
        status = add_step(draft, STEP_SPLIT);
    }
    return status;
}

static enum status read_split(struct draft *draft, const struct json_value *object)
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
        return add_step(draft, STEP_NO_SPLIT);
    }
    // Removed and inverted, what is left are the matches, as with Isolated if everything is matched.
    bool removes = inverts && slice_is(behavior->raw, "Removed");
    if (!removes && !slice_is(behavior->raw, "Isolated")) {
        return refuse_behavior(draft, behavior, inverts);
    }
    draft->removes_unmatched |= removes;
    return add_pattern(draft, &fields[0]);
}

static enum status read_digits(struct draft *draft, const struct json_value *object)
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
    return add_step(draft, STEP_DIGITS);
}

static enum status read_byte_level(struct draft *draft, const struct json_value *object)
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
    return status == STATUS_OK ? add_step(draft, STEP_BYTE_LEVEL) : status;
}

static enum status read_scheme(struct draft *draft, const struct json_value *scheme,
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

static enum status read_metaspace(struct draft *draft, const struct json_value *object)
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
    status = read_scheme(draft, &fields[1], &fields[2]);
    if (status == STATUS_OK) {
        status = load_bool(draft->load, &fields[3], "split", true, &draft->splits);
    }
    return status == STATUS_OK ? add_step(draft, STEP_METASPACE) : status;
}

static enum status read_pre_tokenizers(struct draft *draft, const struct json_value *object);

static const struct component pre_tokenizers[] = {
    {"ByteLevel", read_byte_level},
    {"Digits", read_digits},
    {"Metaspace", read_metaspace},
    {"Sequence", read_pre_tokenizers},
    {"Split", read_split},
    {"BertPreTokenizer", NULL},
    {"CharDelimiterSplit", NULL},
    {"FixedLength", NULL},
    {"Punctuation", NULL},
    {"UnicodeScripts", NULL},
    {"Whitespace", NULL},
    {"WhitespaceSplit", NULL},
    {NULL, NULL},
};

static enum status read_pre_tokenizers(struct draft *draft, const struct json_value *object)
{
    static const char *const names[] = {"pretokenizers"};
    struct json_value list = {0};

    enum status status =
        load_fields(draft->load, object, "pre_tokenizer Sequence", names, 1, &list);
    if (status != STATUS_OK) {
        return status;
    }
    return read_list(draft, &list, "pre_tokenizer", pre_tokenizers);
}

static bool are_steps(const struct draft *draft, uint32_t count, enum step_kind first,
                      enum step_kind second)
{
    return draft->step_count == count && (count < 1 || draft->steps[0] == first) &&
           (count < 2 || draft->steps[1] == second);
}

static enum status refuse_pattern(const struct draft *draft)
{
    struct slice head = load_head(draft->patterns[0].text, 60);
    return load_refuse(draft->load->error,
                       "pre_tokenizer Split by a Regex that is not known: " LOAD_ADVICE
                       "; it begins with %.*s",
                       (int)head.size, (const char *)head.bytes);
}

// Splits, and then ByteLevel.
static enum status find_pattern(struct draft *draft, struct pipeline *pipeline)
{
    struct slice patterns[pattern_count_max];

    if (draft->has_regex || draft->has_prefix_space) {
        return load_refuse(draft->load->error, "ByteLevel with use_regex or add_prefix_space "
                                               "after a Split is not supported: " LOAD_ADVICE);
    }
    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        patterns[i] = draft->patterns[i].text;
    }
    bool is_known = draft->pattern_count == 1
                        ? split_find(patterns[0], &pipeline->split)
                        : split_find_sequence(patterns, draft->pattern_count, &pipeline->split);
    if (!is_known) {
        return refuse_pattern(draft);
    }
    // Every pattern but DeepSeek's matches every character.
    if (draft->removes_unmatched && pipeline->split == SPLIT_DSV3) {
        return load_refuse(draft->load->error, "pre_tokenizer Split with behavior Removed and "
                                               "this Regex is not supported: " LOAD_ADVICE);
    }
    return STATUS_OK;
}

static enum status find_byte_level(struct draft *draft, struct pipeline *pipeline)
{
    if (draft->replace_count > 0 || draft->prepend_count > 0) {
        return load_refuse(draft->load->error, "normalizer Replace or Prepend with ByteLevel is "
                                               "not supported: " LOAD_ADVICE);
    }
    draft->load->spells_bytes = true;
    if (draft->step_count == draft->pattern_count + 1 && draft->pattern_count > 0) {
        return find_pattern(draft, pipeline);
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

static enum status find_sentence_piece(const struct draft *draft, struct pipeline *pipeline)
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

enum status load_pipeline(struct load *load, const struct json_value *normalizer,
                          const struct json_value *pre_tokenizer)
{
    struct draft draft = {.load = load};
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
    pipeline.is_nfc = draft.nfc_count > 0;
    bool has_bytes = draft.step_count > 0 && draft.steps[draft.step_count - 1] == STEP_BYTE_LEVEL;
    status =
        has_bytes ? find_byte_level(&draft, &pipeline) : find_sentence_piece(&draft, &pipeline);
    if (status == STATUS_OK) {
        load->pipeline = pipeline;
    }
    return status;
}
