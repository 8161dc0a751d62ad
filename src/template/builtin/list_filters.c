// SPDX-License-Identifier: Apache-2.0
//
// Filters that go through the items of something.  Where Jinja gives a generator we give one too, computed
// at once: what it would yield cannot change in between.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

bool filter_length(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    uint32_t length = 0;
    if (!builtin_bind_none(room, "length", arguments) || !value_length(room, subject, &length)) {
        return false;
    }
    *out = value_int(length);
    return true;
}

bool filter_list(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    const struct value_list *list = NULL;
    if (!builtin_bind_none(room, "list", arguments) || !value_iterate(room, subject, &list)) {
        return false;
    }
    *out = (struct value){.kind = VALUE_LIST, .list = list};
    return true;
}

bool filter_items(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    static const struct value_list nothing;
    const struct value_list *pairs = &nothing;
    if (!builtin_bind_none(room, "items", arguments)) {
        return false;
    }
    if (subject->kind != VALUE_UNDEFINED && subject->kind != VALUE_DICT) {
        return value_fail(room, STATUS_MALFORMED, "Can only get item pairs from a mapping.");
    }
    return (subject->kind == VALUE_UNDEFINED || value_pairs(room, subject->dict, &pairs)) &&
           value_generator_new(room, pairs, out);
}

bool filter_default(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"default", 0, 2, {"default_value", "boolean"}};
    const struct value *given[2];
    if (!builtin_bind(room, &signature, arguments, given)) {
        return false;
    }
    bool replaced =
        subject->kind == VALUE_UNDEFINED || (argument_is_true(given[1]) && !value_is_true(subject));
    if (!replaced) {
        *out = *subject;
    } else {
        *out = given[0] != NULL ? *given[0] : value_string(slice_str(""));
    }
    return true;
}

bool filter_first(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    if (!builtin_bind_none(room, "first", arguments)) {
        return false;
    }
    *out = value_undefined(slice_str("No first item, sequence was empty."));
    if (subject->kind == VALUE_GENERATOR) {
        // The others stay.
        struct value_generator *generator = subject->generator;
        if (generator->next < generator->list->count) {
            *out = generator->list->items[generator->next++];
        }
        return true;
    }
    if (subject->kind == VALUE_STRING && subject->string.size > 0) {
        *out = value_string(
            slice_of(subject->string.bytes, utf8_size_of_lead(subject->string.bytes[0])));
        return true;
    }
    const struct value_list *list = NULL;
    if (!value_iterate(room, subject, &list)) {
        return false;
    }
    *out = list->count > 0 ? list->items[0] : *out;
    return true;
}

static bool can_be_reversed(const struct value *value)
{
    return value->kind == VALUE_UNDEFINED || value->kind == VALUE_VIEW ||
           (value->kind >= VALUE_STRING && value->kind <= VALUE_DICT);
}

bool filter_last(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    const struct value_list *list = NULL;
    if (!builtin_bind_none(room, "last", arguments)) {
        return false;
    }
    if (!can_be_reversed(subject)) {
        return value_fail(room, STATUS_MALFORMED, "'%s' object is not reversible",
                          value_type_name(subject));
    }
    if (subject->kind == VALUE_STRING && subject->string.size > 0) {
        struct slice string = subject->string;
        const uint8_t *end = string.bytes + string.size;
        const uint8_t *last = utf8_back(string.bytes, end);
        *out = value_string(slice_of(last, (size_t)(end - last)));
        out->markup = subject->markup;
        return true;
    }
    if (!value_iterate(room, subject, &list)) {
        return false;
    }
    *out = list->count > 0 ? list->items[list->count - 1]
                           : value_undefined(slice_str("No last item, sequence was empty."));
    return true;
}

static bool reverse_string(struct value_room *room, const struct value *subject, struct value *out)
{
    struct slice string = subject->string;
    uint8_t *bytes = value_bytes_new(room, string.size);
    if (bytes == NULL) {
        return false;
    }
    size_t at = string.size;
    for (size_t i = 0; i < string.size;) {
        unsigned size = utf8_size_of_lead(string.bytes[i]);
        at -= size;
        memcpy(bytes + at, string.bytes + i, size);
        i += size;
    }
    bool markup = subject->markup;
    *out = value_string(slice_of(bytes, string.size));
    out->markup = markup;
    return value_step(room, 1 + string.size / 8);
}

bool filter_reverse(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    const struct value_list *list = NULL;
    if (!builtin_bind_none(room, "reverse", arguments)) {
        return false;
    }
    if (subject->kind == VALUE_STRING) {
        return reverse_string(room, subject, out);
    }
    if (!value_iterate(room, subject, &list) || !value_step(room, 1 + list->count)) {
        return false;
    }
    struct value_list *reversed = value_list_new(room, list->count);
    if (reversed == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        reversed->items[i] = list->items[list->count - 1 - i];
    }
    if (can_be_reversed(subject)) {
        return value_generator_new(room, reversed, out);
    }
    *out = (struct value){.kind = VALUE_LIST, .list = reversed};
    return true;
}

bool filter_join(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"join", 0, 2, {"d", "attribute"}};
    const struct value *given[2];
    const struct value_list *list = NULL;
    struct slice separator = {0};
    if (!builtin_bind(room, &signature, arguments, given) ||
        (given[0] != NULL && !value_to_string(room, given[0], &separator)) ||
        !value_iterate(room, subject, &list) || !value_step(room, 1 + list->count)) {
        return false;
    }
    struct text text = value_text_open(room);
    for (uint32_t i = 0; i < list->count && !text.overflow; i++) {
        // Finding an attribute takes nothing from the arena.
        struct value item;
        if (!builtin_attribute(room, &list->items[i], given[1], NULL, &item)) {
            return false;
        }
        text_add(&text, i > 0 ? separator : slice_of(NULL, 0));
        value_print(&item, &text);
    }
    struct slice joined;
    if (!value_text_take(room, &text, &joined)) {
        return false;
    }
    *out = value_string(joined);
    return true;
}

// What items are sorted and compared by: an attribute, without case unless told.
struct item_key {
    const struct value *attribute;
    bool case_sensitive;
};

static bool key_of(struct value_room *room, const struct value *item, const struct item_key *key,
                   struct value *out)
{
    if (!builtin_attribute(room, item, key->attribute, NULL, out)) {
        return false;
    }
    if (out->kind == VALUE_STRING && !key->case_sensitive) {
        struct slice lower;
        if (!value_text_to_case(room, out->string, VALUE_TEXT_LOWER, &lower)) {
            return false;
        }
        *out = value_string(lower);
    }
    return true;
}

// The items in the order of their keys.
static bool sort_by(struct value_room *room, const struct value_list *items,
                    const struct value *keys, bool reverse, struct value *out)
{
    struct value_list *sorted = value_list_new(room, items->count);
    struct value_sort_entry *entries = value_sort_entries_new(room, items->count);
    if (sorted == NULL || entries == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        entries[i] = (struct value_sort_entry){.key = &keys[i], .index = i};
    }
    if (!value_sort(room, entries, items->count, reverse)) {
        return false;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        sorted->items[i] = items->items[entries[i].index];
    }
    *out = (struct value){.kind = VALUE_LIST, .list = sorted};
    return true;
}

// The attributes "a,b" of an item as a list; one alone is a list too, since lists compare differently: None
// is equal to None and has no order.
static bool keys_of(struct value_room *room, const struct value *item, const struct item_key *key,
                    struct value *out)
{
    struct slice rest = {0};
    uint32_t count = 1;
    if (argument_is_given(key->attribute) && key->attribute->kind == VALUE_STRING) {
        rest = key->attribute->string;
        for (size_t i = 0; i < rest.size; i++) {
            count += rest.bytes[i] == ',';
        }
    }
    struct value_list *keys = value_list_new(room, count);
    if (keys == NULL) {
        return false;
    }
    *out = (struct value){.kind = VALUE_LIST, .list = keys};
    if (count == 1) {
        return key_of(room, item, key, &keys->items[0]);
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t comma = place_of(rest, slice_str(","));
        comma = comma == PLACE_NONE ? rest.size : comma;
        struct value part = value_string(slice_of(rest.bytes, comma));
        struct item_key one = {.attribute = &part, .case_sensitive = key->case_sensitive};
        if (!key_of(room, item, &one, &keys->items[i])) {
            return false;
        }
        rest = comma < rest.size ? slice_of(rest.bytes + comma + 1, rest.size - comma - 1) : rest;
    }
    return true;
}

bool filter_sort(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {
        "sort", 0, 3, {"reverse", "case_sensitive", "attribute"}};
    const struct value *given[3];
    const struct value_list *list = NULL;
    struct value_list *keys = NULL;
    if (!builtin_bind(room, &signature, arguments, given) || !value_iterate(room, subject, &list) ||
        (keys = value_list_new(room, list->count)) == NULL) {
        return false;
    }
    struct item_key key = {.attribute = given[2], .case_sensitive = argument_is_true(given[1])};
    for (uint32_t i = 0; i < list->count; i++) {
        if (!keys_of(room, &list->items[i], &key, &keys->items[i])) {
            return false;
        }
    }
    return sort_by(room, list, keys->items, argument_is_true(given[0]), out);
}

bool filter_dictsort(struct value_room *room, const struct value *subject,
                     const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {
        "dictsort", 0, 3, {"case_sensitive", "by", "reverse"}};
    const struct value *given[3];
    const struct value_list *pairs = NULL;
    struct value_list *keys = NULL;
    struct slice by = slice_str("key");
    if (!builtin_bind(room, &signature, arguments, given) ||
        (given[1] != NULL && !argument_string(room, given[1], &by))) {
        return false;
    }
    bool by_value = slice_is(by, "value");
    if (!by_value && !slice_is(by, "key")) {
        return value_fail(room, STATUS_MALFORMED,
                          "You can only sort by either \"key\" or \"value\"");
    }
    if (subject->kind != VALUE_DICT) {
        return value_fail(room, STATUS_MALFORMED, "'%s' object has no attribute 'items'",
                          value_type_name(subject));
    }
    if (!value_pairs(room, subject->dict, &pairs) ||
        (keys = value_list_new(room, pairs->count)) == NULL) {
        return false;
    }
    struct item_key key = {.case_sensitive = argument_is_true(given[0])};
    for (uint32_t i = 0; i < pairs->count; i++) {
        if (!key_of(room, &pairs->items[i].list->items[by_value], &key, &keys->items[i])) {
            return false;
        }
    }
    return sort_by(room, pairs, keys->items, argument_is_true(given[2]), out);
}

bool filter_unique(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"unique", 0, 2, {"case_sensitive", "attribute"}};
    const struct value *given[2];
    const struct value_list *list = NULL;
    if (!builtin_bind(room, &signature, arguments, given) || !value_iterate(room, subject, &list)) {
        return false;
    }
    struct value_list *kept = value_list_new(room, list->count);
    struct value_dict *seen = value_dict_new(room, list->count);
    if (kept == NULL || seen == NULL) {
        return false;
    }
    kept->count = 0;
    seen->count = 0;
    struct item_key key = {.attribute = given[1], .case_sensitive = argument_is_true(given[0])};
    for (uint32_t i = 0; i < list->count; i++) {
        struct value value;
        const struct value *found = NULL;
        if (!key_of(room, &list->items[i], &key, &value) ||
            !value_dict_find(room, seen, &value, &found)) {
            return false;
        }
        if (found == NULL) {
            seen->members[seen->count++] = (struct value_member){value, value_none()};
            kept->items[kept->count++] = list->items[i];
        }
    }
    return value_generator_new(room, kept, out);
}

static bool extreme(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, int sign, struct value *out)
{
    static const struct signature signature = {"min", 0, 2, {"case_sensitive", "attribute"}};
    const struct value *given[2];
    const struct value_list *list = NULL;
    if (!builtin_bind(room, &signature, arguments, given) || !value_iterate(room, subject, &list)) {
        return false;
    }
    *out = value_undefined(slice_str("No aggregated item, sequence was empty."));
    struct item_key key = {.attribute = given[1], .case_sensitive = argument_is_true(given[0])};
    struct value best = value_none();
    for (uint32_t i = 0; i < list->count; i++) {
        struct value value;
        int order = sign;
        if (!key_of(room, &list->items[i], &key, &value) ||
            (i > 0 && !value_compare(room, &value, &best, &order))) {
            return false;
        }
        if (order == sign) {
            best = value;
            *out = list->items[i];
        }
    }
    return true;
}

bool filter_min(struct value_room *room, const struct value *subject,
                const struct call_arguments *arguments, struct value *out)
{
    return extreme(room, subject, arguments, -1, out);
}

bool filter_max(struct value_room *room, const struct value *subject,
                const struct call_arguments *arguments, struct value *out)
{
    return extreme(room, subject, arguments, 1, out);
}

// Arguments without the first `count`, which are not named.
static struct call_arguments without(const struct call_arguments *arguments, uint32_t count)
{
    struct call_arguments rest = *arguments;
    rest.values += count;
    rest.count -= count;
    return rest;
}

static uint32_t placed_count(const struct call_arguments *arguments)
{
    return arguments->count - arguments->named_count;
}

static bool map_attribute(struct value_room *room, const struct value_list *list,
                          const struct call_arguments *arguments, struct value_list *out)
{
    static const struct signature signature = {"map", 1, 2, {"attribute", "default"}};
    const struct value *given[2];
    if (!builtin_bind(room, &signature, arguments, given)) {
        return false;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (!builtin_attribute(room, &list->items[i], given[0], given[1], &out->items[i])) {
            return false;
        }
    }
    return true;
}

static bool refuse_name(struct value_room *room, const char *what, const struct value *name)
{
    struct slice text = name->kind == VALUE_STRING ? name->string : slice_str("?");
    return value_fail(room, STATUS_MALFORMED, "No %s named '%.*s'.", what,
                      (int)(text.size < 80 ? text.size : 80), text.bytes);
}

static bool map_filter(struct value_room *room, const struct value_list *list,
                       const struct call_arguments *arguments, struct value_list *out)
{
    if (placed_count(arguments) == 0) {
        return value_fail(room, STATUS_MALFORMED, "map requires a filter argument");
    }
    const struct value *name = &arguments->values[0];
    const struct builtin *filter = name->kind == VALUE_STRING ? builtin_filter(name->string) : NULL;
    if (filter == NULL && list->count > 0) {
        return refuse_name(room, "filter", name);
    }
    // A filter may go through its items with another one, and that with a third: as deep as names are given
    // in one call, so it ends.
    struct call_arguments rest = without(arguments, 1);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!value_step(room, 1) || !filter->call(room, &list->items[i], &rest, &out->items[i])) {
            return false;
        }
    }
    return true;
}

bool filter_map(struct value_room *room, const struct value *subject,
                const struct call_arguments *arguments, struct value *out)
{
    const struct value_list *list = NULL;
    struct value_list *mapped = NULL;
    if (!value_is_true(subject)) {
        // Jinja does not even look at the arguments then.
        return (mapped = value_list_new(room, 0)) != NULL && value_generator_new(room, mapped, out);
    }
    if (!value_iterate(room, subject, &list) ||
        (mapped = value_list_new(room, list->count)) == NULL) {
        return false;
    }
    bool by_attribute = false;
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        by_attribute = by_attribute || slice_is(arguments->names[i], "attribute");
    }
    bool done = by_attribute && placed_count(arguments) == 0
                    ? map_attribute(room, list, arguments, mapped)
                    : map_filter(room, list, arguments, mapped);
    return done && value_generator_new(room, mapped, out);
}

// select, reject and those that look at an attribute.
struct selection {
    bool by_attribute;
    bool keeps; // what passes the test, rather than what does not
};

static bool passes(struct value_room *room, const struct value *item, const struct builtin *test,
                   const struct call_arguments *arguments, bool *out)
{
    if (test == NULL) {
        *out = value_is_true(item);
        return true;
    }
    struct value result;
    if (!test->call(room, item, arguments, &result)) {
        return false;
    }
    *out = value_is_true(&result);
    return true;
}

static bool select_from(struct value_room *room, const struct value *subject,
                        const struct call_arguments *arguments, struct selection selection,
                        struct value *out)
{
    const struct value_list *list = NULL;
    struct value_list *kept = NULL;
    const struct builtin *test = NULL;
    uint32_t first = selection.by_attribute ? 1 : 0;
    uint32_t placed = placed_count(arguments);
    if (!value_is_true(subject)) {
        return (kept = value_list_new(room, 0)) != NULL && value_generator_new(room, kept, out);
    }
    if (placed < first) {
        return value_fail(room, STATUS_MALFORMED, "Missing parameter for attribute name");
    }
    if (placed > first) {
        const struct value *name = &arguments->values[first];
        test = name->kind == VALUE_STRING ? builtin_test(name->string) : NULL;
    }
    if (!value_iterate(room, subject, &list) ||
        (kept = value_list_new(room, list->count)) == NULL) {
        return false;
    }
    if (placed > first && test == NULL && list->count > 0) {
        return refuse_name(room, "test", &arguments->values[first]);
    }
    const struct value *attribute = selection.by_attribute ? &arguments->values[0] : NULL;
    struct call_arguments rest = without(arguments, placed > first ? first + 1 : first);
    kept->count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct value item;
        bool passed = false;
        if (!builtin_attribute(room, &list->items[i], attribute, NULL, &item) ||
            !passes(room, &item, test, &rest, &passed)) {
            return false;
        }
        if (passed == selection.keeps) {
            kept->items[kept->count++] = list->items[i];
        }
    }
    return value_generator_new(room, kept, out);
}

bool filter_select(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return select_from(room, subject, arguments, (struct selection){false, true}, out);
}

bool filter_reject(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return select_from(room, subject, arguments, (struct selection){false, false}, out);
}

bool filter_selectattr(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    return select_from(room, subject, arguments, (struct selection){true, true}, out);
}

bool filter_rejectattr(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    return select_from(room, subject, arguments, (struct selection){true, false}, out);
}

// Items [from, to) of a list, and as many of `fill` after them as say.
static bool cut(struct value_room *room, const struct value_list *list, const uint32_t range[2],
                uint32_t fill_count, const struct value *fill, struct value *out)
{
    struct value_list *part = value_list_new(room, range[1] - range[0] + fill_count);
    if (part == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < part->count; i++) {
        part->items[i] = range[0] + i < range[1] ? list->items[range[0] + i] : *fill;
    }
    *out = (struct value){.kind = VALUE_LIST, .list = part};
    return value_step(room, 1 + part->count);
}

// The arguments of batch and slice.
static bool open_cuts(struct value_room *room, const struct value *subject,
                      const struct signature *signature, const struct call_arguments *arguments,
                      const struct value **given, const struct value_list **list)
{
    int64_t count = 0;
    if (!builtin_bind(room, signature, arguments, given) ||
        !argument_integer(room, given[0], 0, &count)) {
        return false;
    }
    if (count < 1 || count > 1000000) {
        (void)value_fail(room, STATUS_MALFORMED, "%s by %s is not implemented", signature->name,
                         count < 1 ? "less than one" : "so many");
        return false;
    }
    return value_iterate(room, subject, list);
}

bool filter_batch(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"batch", 1, 2, {"linecount", "fill_with"}};
    const struct value *given[2];
    const struct value_list *list = NULL;
    if (!open_cuts(room, subject, &signature, arguments, given, &list)) {
        return false;
    }
    uint32_t size = (uint32_t)(given[0]->kind == VALUE_BOOL ? 1 : given[0]->integer);
    struct value_list *batches = value_list_new(room, (list->count + size - 1) / size);
    if (batches == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < batches->count; i++) {
        uint32_t left = list->count - i * size;
        uint32_t range[2] = {i * size, i * size + (left < size ? left : size)};
        uint32_t missing = argument_is_given(given[1]) && left < size ? size - left : 0;
        if (!cut(room, list, range, missing, given[1], &batches->items[i])) {
            return false;
        }
    }
    return value_generator_new(room, batches, out);
}

bool filter_slice(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"slice", 1, 2, {"slices", "fill_with"}};
    const struct value *given[2];
    const struct value_list *list = NULL;
    if (!open_cuts(room, subject, &signature, arguments, given, &list)) {
        return false;
    }
    uint32_t count = (uint32_t)(given[0]->kind == VALUE_BOOL ? 1 : given[0]->integer);
    uint32_t size = list->count / count;
    uint32_t longer = list->count % count; // the first ones have one more
    struct value_list *slices = value_list_new(room, count);
    if (slices == NULL) {
        return false;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t range[2] = {at, at + size + (i < longer)};
        uint32_t missing = argument_is_given(given[1]) && i >= longer;
        if (!cut(room, list, range, missing, given[1], &slices->items[i])) {
            return false;
        }
        at = range[1];
    }
    return value_generator_new(room, slices, out);
}
