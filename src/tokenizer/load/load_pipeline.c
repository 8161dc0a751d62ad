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
    bool (*read)(struct pipeline_draft *draft, const struct json_value *object); // NULL: refused
};

// Refuses components without a row, too.
static bool read_component(struct pipeline_draft *draft, const struct json_value *object,
                           const char *what, const struct pipeline_component *components)
{
    struct json_value type = json_member(object, "type");
    const struct pipeline_component *component = components;

    if (object->kind != JSON_OBJECT) {
        return load_refuse(draft->load, "%s is not an object", what);
    }
    while (component->type != NULL && !json_is_string(&type, component->type)) {
        component++;
    }
    if (component->type != NULL && component->read != NULL) {
        return component->read(draft, object);
    }
    return load_refuse(draft->load, "%s %s is not %s: " LOAD_ADVICE, what,
                       load_excerpt(type.raw).text,
                       component->type != NULL ? "supported" : "known");
}

static bool read_components(struct pipeline_draft *draft, struct json_value array, const char *what,
                            const struct pipeline_component *components)
{
    struct json_item item;
    bool is_read = true;

    if (array.kind != JSON_ARRAY) {
        return load_refuse(draft->load, "%s Sequence has no list", what);
    }
    struct json json = json_inside(array.raw);
    while (is_read && json_next_whole(&json, &item)) {
        is_read = read_component(draft, &item.value, what, components);
    }
    return is_read;
}

// A member that is true or false, or missing.
static bool read_flag(struct pipeline_draft *draft, const struct json_value *object,
                      const char *name, bool otherwise, bool *out)
{
    struct json_value value = json_member(object, name);
    return load_flag(draft->load, &value, name, otherwise, out);
}

static bool read_nfc(struct pipeline_draft *draft, [[maybe_unused]] const struct json_value *object)
{
    draft->nfc_count++;
    return true;
}

// Whether the member is this string.
static bool has_text(const struct json_value *object, const char *name, const char *text)
{
    struct json_value value = json_member(object, name);
    return json_is_string(&value, text);
}

// Whether the pattern is {"String": " "}.
static bool has_space_pattern(const struct json_value *object)
{
    struct json_value pattern = json_member(object, "pattern");
    return has_text(&pattern, "String", " ");
}

static bool read_replace(struct pipeline_draft *draft, const struct json_value *object)
{
    if (!has_space_pattern(object) || !has_text(object, "content", SPACE_MARK)) {
        return load_refuse(draft->load, "normalizer Replace of anything but a space by "
                                        "U+2581 is not supported: " LOAD_ADVICE);
    }
    draft->replace_count++;
    return true;
}

static bool read_prepend(struct pipeline_draft *draft, const struct json_value *object)
{
    if (!has_text(object, "prepend", SPACE_MARK)) {
        return load_refuse(draft->load, "normalizer Prepend of anything but U+2581 is not "
                                        "supported: " LOAD_ADVICE);
    }
    draft->prepend_count++;
    return true;
}

static bool read_normalizers(struct pipeline_draft *draft, const struct json_value *object);

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

static bool read_normalizers(struct pipeline_draft *draft, const struct json_value *object)
{
    return read_components(draft, json_member(object, "normalizers"), "normalizer", normalizers);
}

static bool add_pipeline_step(struct pipeline_draft *draft, enum pipeline_step kind)
{
    if (draft->step_count == step_count_max) {
        return load_refuse(draft->load,
                           "a pre_tokenizer of more than %d steps is not supported: " LOAD_ADVICE,
                           step_count_max);
    }
    draft->steps[draft->step_count++] = kind;
    return true;
}

static bool add_split_pattern(struct pipeline_draft *draft, const struct json_value *pattern)
{
    struct json_value regex = json_member(pattern, "Regex");

    if (regex.kind != JSON_STRING) {
        return load_refuse(draft->load, "pre_tokenizer Split by a string is not supported "
                                        "without a Replace of spaces: " LOAD_ADVICE);
    }
    if (draft->pattern_count == pattern_count_max) {
        return load_refuse(draft->load,
                           "a pre_tokenizer of more than %d Splits is not supported: " LOAD_ADVICE,
                           pattern_count_max);
    }
    return load_string(draft->load, &regex, "the Regex of a Split",
                       &draft->patterns[draft->pattern_count++]) &&
           add_pipeline_step(draft, STEP_SPLIT);
}

static bool read_split_step(struct pipeline_draft *draft, const struct json_value *object)
{
    struct json_value pattern = json_member(object, "pattern");
    struct json_value behavior = json_member(object, "behavior");
    bool inverts;

    if (!read_flag(draft, object, "invert", false, &inverts)) {
        return false;
    }
    if (behavior.kind == JSON_STRING && draft->replace_count > 0 && !inverts &&
        has_space_pattern(object)) {
        return add_pipeline_step(draft, STEP_NO_SPLIT);
    }
    // Removed and inverted keeps the matches, as Isolated does if everything is matched.
    bool removes = inverts && json_is_string(&behavior, "Removed");
    if (!removes && !json_is_string(&behavior, "Isolated")) {
        return load_refuse(draft->load,
                           "pre_tokenizer Split with behavior %s%s is not supported: " LOAD_ADVICE,
                           load_excerpt(behavior.raw).text, inverts ? ", inverted," : "");
    }
    draft->removes_unmatched |= removes;
    return add_split_pattern(draft, &pattern);
}

static bool read_digits_step(struct pipeline_draft *draft, const struct json_value *object)
{
    struct json_value individual = json_member(object, "individual_digits");

    if (!json_is_true(&individual)) {
        return load_refuse(draft->load, "pre_tokenizer Digits without individual_digits is "
                                        "not supported: " LOAD_ADVICE);
    }
    return add_pipeline_step(draft, STEP_DIGITS);
}

static bool read_byte_level_step(struct pipeline_draft *draft, const struct json_value *object)
{
    // Files without use_regex are older than the option, and always split.
    return read_flag(draft, object, "add_prefix_space", false, &draft->has_prefix_space) &&
           read_flag(draft, object, "use_regex", true, &draft->has_regex) &&
           add_pipeline_step(draft, STEP_BYTE_LEVEL);
}

static bool read_space_scheme(struct pipeline_draft *draft, const struct json_value *scheme,
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

    for (size_t i = 0; i < ARRAY_COUNT(schemes); i++) {
        if (json_is_string(scheme, schemes[i].name)) {
            draft->space_rule = schemes[i].rule;
            // The two spellings together must agree.
            bool agrees = prefix->kind != JSON_BOOL ||
                          json_is_true(prefix) == (schemes[i].rule != SPACE_NOWHERE);
            return agrees || load_refuse(draft->load, "Metaspace has an add_prefix_space that is "
                                                      "not its prepend_scheme");
        }
    }
    if (scheme->kind == JSON_STRING || prefix->kind != JSON_BOOL) {
        return load_refuse(draft->load, "Metaspace has no prepend_scheme that is known");
    }
    draft->space_rule = json_is_true(prefix) ? SPACE_UNLESS_THERE : SPACE_NOWHERE;
    return true;
}

static bool read_metaspace(struct pipeline_draft *draft, const struct json_value *object)
{
    struct json_value scheme = json_member(object, "prepend_scheme");
    struct json_value prefix = json_member(object, "add_prefix_space");

    if (!has_text(object, "replacement", SPACE_MARK)) {
        return load_refuse(draft->load, "Metaspace with a replacement other than U+2581 is "
                                        "not supported: " LOAD_ADVICE);
    }
    return read_space_scheme(draft, &scheme, &prefix) &&
           read_flag(draft, object, "split", true, &draft->splits) &&
           add_pipeline_step(draft, STEP_METASPACE);
}

static bool read_pre_tokenizers(struct pipeline_draft *draft, const struct json_value *object);

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

static bool read_pre_tokenizers(struct pipeline_draft *draft, const struct json_value *object)
{
    return read_components(draft, json_member(object, "pretokenizers"), "pre_tokenizer",
                           pre_tokenizers);
}

static bool are_steps(const struct pipeline_draft *draft, uint32_t count, enum pipeline_step first,
                      enum pipeline_step second)
{
    return draft->step_count == count && (count < 1 || draft->steps[0] == first) &&
           (count < 2 || draft->steps[1] == second);
}

// Splits, and then ByteLevel.
static bool find_split_pattern(struct pipeline_draft *draft, struct pipeline *pipeline)
{
    struct slice patterns[pattern_count_max];

    if (draft->has_regex || draft->has_prefix_space) {
        return load_refuse(draft->load, "ByteLevel with use_regex or add_prefix_space "
                                        "after a Split is not supported: " LOAD_ADVICE);
    }
    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        patterns[i] = draft->patterns[i].text;
    }
    if (!split_find(patterns, draft->pattern_count, &pipeline->split)) {
        return load_refuse(draft->load,
                           "pre_tokenizer Split by a Regex that is not known: " LOAD_ADVICE
                           "; it begins with %s",
                           load_excerpt(patterns[0]).text);
    }
    // Every pattern but DeepSeek's matches every character.
    if (draft->removes_unmatched && pipeline->split == SPLIT_DSV3) {
        return load_refuse(draft->load, "pre_tokenizer Split with behavior Removed and "
                                        "this Regex is not supported: " LOAD_ADVICE);
    }
    return true;
}

static bool find_byte_level(struct pipeline_draft *draft, struct pipeline *pipeline)
{
    if (draft->replace_count > 0 || draft->prepend_count > 0) {
        return load_refuse(draft->load, "normalizer Replace or Prepend with ByteLevel is "
                                        "not supported: " LOAD_ADVICE);
    }
    draft->load->spells_bytes = true;
    if (draft->step_count == draft->pattern_count + 1 && draft->pattern_count > 0) {
        return find_split_pattern(draft, pipeline);
    }
    if (are_steps(draft, 1, STEP_BYTE_LEVEL, 0)) {
        pipeline->split = draft->has_regex ? SPLIT_GPT2 : SPLIT_NONE;
        pipeline->space_rule = draft->has_prefix_space ? SPACE_UNLESS_THERE : SPACE_NOWHERE;
        return true;
    }
    if (are_steps(draft, 2, STEP_DIGITS, STEP_BYTE_LEVEL) && draft->has_regex &&
        !draft->has_prefix_space) {
        pipeline->split = SPLIT_DIGITS_GPT2;
        return true;
    }
    return load_refuse(draft->load,
                       "this combination of pre_tokenizers is not supported: " LOAD_ADVICE);
}

static bool find_sentence_piece(const struct pipeline_draft *draft, struct pipeline *pipeline)
{
    bool has_metaspace = are_steps(draft, 1, STEP_METASPACE, 0);
    bool has_nothing = are_steps(draft, 0, 0, 0) || are_steps(draft, 1, STEP_NO_SPLIT, 0);

    pipeline->by_character = true;
    if (has_metaspace && draft->replace_count == 0 && draft->prepend_count == 0) {
        pipeline->space_rule = draft->space_rule;
        pipeline->splits_at_spaces = draft->splits;
        return true;
    }
    if (has_nothing && draft->replace_count == 1 && draft->prepend_count <= 1) {
        pipeline->replaces_spaces = true;
        pipeline->space_rule = draft->prepend_count == 1 ? SPACE_EACH_GAP : SPACE_NOWHERE;
        return true;
    }
    return load_refuse(draft->load, "a pre_tokenizer without ByteLevel, Metaspace or a "
                                    "Replace of spaces is not supported: " LOAD_ADVICE);
}

bool load_pipeline(struct tokenizer_draft *load, const struct json_value *normalizer,
                   const struct json_value *pre_tokenizer)
{
    struct pipeline_draft draft = {.load = load};

    if ((!json_is_unset(normalizer) &&
         !read_component(&draft, normalizer, "normalizer", normalizers)) ||
        (!json_is_unset(pre_tokenizer) &&
         !read_component(&draft, pre_tokenizer, "pre_tokenizer", pre_tokenizers))) {
        return false;
    }
    ASSERT(draft.step_count <= step_count_max && draft.pattern_count <= pattern_count_max);
    load->pipeline = (struct pipeline){.is_nfc = draft.nfc_count > 0};
    bool has_bytes = draft.step_count > 0 && draft.steps[draft.step_count - 1] == STEP_BYTE_LEVEL;
    return has_bytes ? find_byte_level(&draft, &load->pipeline)
                     : find_sentence_piece(&draft, &load->pipeline);
}
