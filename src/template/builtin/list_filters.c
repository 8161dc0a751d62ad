// SPDX-License-Identifier: Apache-2.0
//
// Filters that go through the items of something.  Where Jinja gives a generator we give one too, computed
// at once: what it would yield cannot change in between.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

bool filter_length(const struct builtin_call *call)
{
    uint32_t length = 0;
    return value_length(call->room, call->subject, &length) && call_gives(call, value_int(length));
}

bool filter_list(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    return value_iterate(call->room, call->subject, &list) && call_gives(call, value_of_list(list));
}

bool filter_items(const struct builtin_call *call)
{
    static const struct value_list no_items;
    const struct value_list *pairs = &no_items;
    const struct value *subject = call->subject;
    if (subject->kind != VALUE_UNDEFINED && subject->kind != VALUE_DICT) {
        return value_raise(call->room, "Can only get item pairs from a mapping.");
    }
    return (subject->kind == VALUE_UNDEFINED ||
            value_dict_list(call->room, subject->dict, VALUE_DICT_ITEMS, &pairs)) &&
           value_generator_new(call->room, pairs, call->out);
}

bool filter_default(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    bool is_replaced =
        subject->kind == VALUE_UNDEFINED || (call_is_true(call, 1) && !value_is_true(subject));
    if (!is_replaced) {
        return call_gives(call, *subject);
    }
    return call_gives(call, call->given[0] != NULL ? *call->given[0] : value_string(slice_str("")));
}

bool filter_first(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    const struct value_list *list = NULL;
    struct value_generator *generator = NULL;
    if (subject->kind == VALUE_STRING && subject->string.size > 0) {
        const uint8_t *bytes = subject->string.bytes;
        return call_gives(call, value_string(slice_of(bytes, utf8_size_of_lead(bytes[0]))));
    }
    if (subject->kind == VALUE_GENERATOR) {
        // The other items stay in it.
        generator = subject->generator;
        list = generator->list;
    } else if (!value_iterate(call->room, subject, &list)) {
        return false;
    }
    uint32_t first = generator != NULL ? generator->next : 0;
    if (first >= list->count) {
        return call_gives(call, value_undefined(slice_str("No first item, sequence was empty.")));
    }
    if (generator != NULL) {
        generator->next++;
    }
    return call_gives(call, list->items[first]);
}

static bool can_be_reversed(const struct value *value)
{
    return value->kind == VALUE_UNDEFINED || value->kind == VALUE_VIEW ||
           (value->kind >= VALUE_STRING && value->kind <= VALUE_DICT);
}

bool filter_last(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    const struct value_list *list = NULL;
    if (!can_be_reversed(subject)) {
        return value_raise(call->room, "'%s' object is not reversible", value_type_name(subject));
    }
    if (subject->kind == VALUE_STRING && subject->string.size > 0) {
        const uint8_t *end = subject->string.bytes + subject->string.size;
        const uint8_t *last = utf8_back(subject->string.bytes, end);
        return call_gives_text(call, slice_of(last, (size_t)(end - last)));
    }
    if (!value_iterate(call->room, subject, &list)) {
        return false;
    }
    return call_gives(call, list->count > 0
                                ? list->items[list->count - 1]
                                : value_undefined(slice_str("No last item, sequence was empty.")));
}

static bool reverse_string(const struct builtin_call *call, struct slice string)
{
    uint8_t *bytes = value_bytes_new(call->room, string.size);
    if (bytes == NULL) {
        return false;
    }
    size_t at = string.size;
    for (size_t i = 0; i < string.size;) {
        unsigned size = utf8_size_of_lead(string.bytes[i]);
        ASSERT_SLOW(size <= at); // strings are valid UTF-8
        at -= size;
        memcpy(bytes + at, string.bytes + i, size);
        i += size;
    }
    return call_gives_text(call, slice_of(bytes, string.size)) &&
           call_takes_steps(call, 1 + string.size / 8);
}

bool filter_reverse(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    if (call->subject->kind == VALUE_STRING) {
        return reverse_string(call, call->subject->string);
    }
    if (!value_iterate(call->room, call->subject, &list) ||
        !call_takes_steps(call, 1 + list->count)) {
        return false;
    }
    struct value_list *reversed = value_list_new(call->room, list->count);
    if (reversed == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        reversed->items[i] = list->items[list->count - 1 - i];
    }
    return can_be_reversed(call->subject) ? value_generator_new(call->room, reversed, call->out)
                                          : call_gives(call, value_of_list(reversed));
}

bool filter_join(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    struct slice separator = {0};
    if ((call->given[0] != NULL && !value_to_string(call->room, call->given[0], &separator)) ||
        !value_iterate(call->room, call->subject, &list) ||
        !call_takes_steps(call, 1 + list->count)) {
        return false;
    }
    struct text text = value_text_open(call->room);
    for (uint32_t i = 0; i < list->count && !text.overflow; i++) {
        // Finding an attribute takes nothing from the arena.
        struct value item;
        if (!builtin_attribute(call->room, &list->items[i], call->given[1], NULL, &item)) {
            return false;
        }
        text_add(&text, i > 0 ? separator : slice_of(NULL, 0));
        value_print(&item, &text);
    }
    return value_text_end(call->room, &text, call->out);
}

// What items are sorted and compared by: an attribute, without case unless told.
struct item_key {
    const struct value *attribute;
    bool case_sensitive;
};

static bool item_key_of(struct value_room *room, const struct value *item,
                        const struct item_key *key, struct value *out)
{
    if (!builtin_attribute(room, item, key->attribute, NULL, out)) {
        return false;
    }
    struct slice lower;
    if (out->kind != VALUE_STRING || key->case_sensitive) {
        return true;
    }
    if (!value_text_to_case(room, out->string, VALUE_TEXT_LOWER, &lower)) {
        return false;
    }
    *out = value_string(lower);
    return true;
}

// The items in the order of their keys.
static bool sort_items(const struct builtin_call *call, const struct value_list *items,
                       const struct value *keys, bool reverse)
{
    struct value_list *sorted = value_list_new(call->room, items->count);
    struct value_sort_entry *entries = value_sort_entries_new(call->room, items->count);
    if (sorted == NULL || entries == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        entries[i] = (struct value_sort_entry){.key = &keys[i], .index = i};
    }
    if (!value_sort(call->room, entries, items->count, reverse)) {
        return false;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        sorted->items[i] = items->items[entries[i].index];
    }
    return call_gives(call, value_of_list(sorted));
}

// The attributes "a,b" of an item as a list; one alone is a list too, since lists compare differently: None
// is equal to None and has no order.
static bool item_keys_of(struct value_room *room, const struct value *item,
                         const struct item_key *key, struct value *out)
{
    bool is_path = key->attribute != NULL && key->attribute->kind == VALUE_STRING;
    struct slice rest = is_path ? key->attribute->string : slice_of(NULL, 0);
    uint32_t count = 1;
    for (size_t i = 0; i < rest.size; i++) {
        count += rest.bytes[i] == ',';
    }
    struct value_list *keys = value_list_new(room, count);
    if (keys == NULL) {
        return false;
    }
    *out = value_of_list(keys);
    for (uint32_t i = 0; i < count; i++) {
        size_t comma = place_of(rest, slice_str(","));
        comma = comma == PLACE_NONE ? rest.size : comma;
        struct value part = value_string(slice_of(rest.bytes, comma));
        struct item_key one = {.attribute = is_path ? &part : key->attribute,
                               .case_sensitive = key->case_sensitive};
        if (!item_key_of(room, item, &one, &keys->items[i])) {
            return false;
        }
        rest = comma < rest.size ? string_after(rest, comma + 1) : rest;
    }
    return true;
}

bool filter_sort(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    struct value_list *keys = NULL;
    if (!value_iterate(call->room, call->subject, &list) ||
        (keys = value_list_new(call->room, list->count)) == NULL) {
        return false;
    }
    struct item_key key = {.attribute = call->given[2], .case_sensitive = call_is_true(call, 1)};
    for (uint32_t i = 0; i < list->count; i++) {
        if (!item_keys_of(call->room, &list->items[i], &key, &keys->items[i])) {
            return false;
        }
    }
    return sort_items(call, list, keys->items, call_is_true(call, 0));
}

bool filter_dictsort(const struct builtin_call *call)
{
    const struct value_list *pairs = NULL;
    struct value_list *keys = NULL;
    struct slice by = slice_str("key");
    if (!call_string(call, 1, &by)) {
        return false;
    }
    bool by_value = slice_is(by, "value");
    if (!by_value && !slice_is(by, "key")) {
        return value_raise(call->room, "You can only sort by either \"key\" or \"value\"");
    }
    if (call->subject->kind != VALUE_DICT) {
        return value_raise(call->room, "'%s' object has no attribute 'items'",
                           value_type_name(call->subject));
    }
    if (!value_dict_list(call->room, call->subject->dict, VALUE_DICT_ITEMS, &pairs) ||
        (keys = value_list_new(call->room, pairs->count)) == NULL) {
        return false;
    }
    struct item_key key = {.case_sensitive = call_is_true(call, 0)};
    for (uint32_t i = 0; i < pairs->count; i++) {
        const struct value *item = &pairs->items[i].list->items[by_value];
        if (!item_key_of(call->room, item, &key, &keys->items[i])) {
            return false;
        }
    }
    return sort_items(call, pairs, keys->items, call_is_true(call, 2));
}

bool filter_unique(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    if (!value_iterate(call->room, call->subject, &list)) {
        return false;
    }
    struct value_list *kept = value_list_new(call->room, list->count);
    struct value_dict *seen = value_dict_new(call->room, list->count);
    if (kept == NULL || seen == NULL) {
        return false;
    }
    kept->count = 0;
    seen->count = 0;
    struct item_key key = {.attribute = call->given[1], .case_sensitive = call_is_true(call, 0)};
    for (uint32_t i = 0; i < list->count; i++) {
        struct value value;
        const struct value *found = NULL;
        if (!item_key_of(call->room, &list->items[i], &key, &value) ||
            !value_dict_find(call->room, seen, &value, &found)) {
            return false;
        }
        if (found == NULL) {
            seen->members[seen->count++] = (struct value_member){value, value_none()};
            kept->items[kept->count++] = list->items[i];
        }
    }
    return value_generator_new(call->room, kept, call->out);
}

// min, and max as its variant.
bool filter_extreme(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    int sign = call->builtin->variant != 0 ? 1 : -1;
    if (!value_iterate(call->room, call->subject, &list)) {
        return false;
    }
    *call->out = value_undefined(slice_str("No aggregated item, sequence was empty."));
    struct item_key key = {.attribute = call->given[1], .case_sensitive = call_is_true(call, 0)};
    struct value best = value_none();
    for (uint32_t i = 0; i < list->count; i++) {
        struct value value;
        int order = sign;
        if (!item_key_of(call->room, &list->items[i], &key, &value) ||
            (i > 0 && !value_compare(call->room, &value, &best, &order))) {
            return false;
        }
        if (order == sign) {
            best = value;
            *call->out = list->items[i];
        }
    }
    return true;
}

// Arguments without the first `count`, which are not named.
static struct call_arguments arguments_after(const struct call_arguments *arguments, uint32_t count)
{
    ASSERT(count <= positional_count(arguments));
    struct call_arguments rest = *arguments;
    rest.values += count;
    rest.count -= count;
    return rest;
}

static bool refuse_name(struct value_room *room, const char *what, const struct value *name)
{
    struct slice text = name->kind == VALUE_STRING ? name->string : slice_str("?");
    return value_raise(room, "No %s named '%.*s'.", what, (int)(text.size < 80 ? text.size : 80),
                       text.bytes);
}

// map(attribute="a", default=b).
static bool map_attribute(const struct builtin_call *call, const struct value_list *list,
                          struct value_list *out)
{
    const struct value *attribute = NULL;
    const struct value *otherwise = NULL;
    for (uint32_t i = 0; i < call->arguments->named_count; i++) {
        struct slice name = call->arguments->names[i];
        if (slice_is(name, "attribute")) {
            attribute = &call->arguments->values[i];
        } else if (slice_is(name, "default")) {
            otherwise = &call->arguments->values[i];
        } else {
            return value_raise(call->room, "map() got an unexpected keyword argument '%.*s'",
                               (int)(name.size < 40 ? name.size : 40), name.bytes);
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (!builtin_attribute(call->room, &list->items[i], attribute, otherwise, &out->items[i])) {
            return false;
        }
    }
    return true;
}

static bool map_filter(const struct builtin_call *call, const struct value_list *list,
                       struct value_list *out)
{
    if (positional_count(call->arguments) == 0) {
        return value_raise(call->room, "map requires a filter argument");
    }
    const struct value *name = &call->arguments->values[0];
    const struct builtin *filter = name->kind == VALUE_STRING ? builtin_filter(name->string) : NULL;
    if (filter == NULL && list->count > 0) {
        return refuse_name(call->room, "filter", name);
    }
    // A filter may go through its items with another one, and that with a third: each takes a name from the
    // arguments of this call, so it ends.
    struct call_arguments rest = arguments_after(call->arguments, 1);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!call_takes_steps(call, 1) ||
            !builtin_run(filter, call->room, &list->items[i], &rest, &out->items[i])) {
            return false;
        }
    }
    return true;
}

bool filter_map(const struct builtin_call *call)
{
    static const struct value_list no_items;
    const struct value_list *list = NULL;
    struct value_list *mapped = NULL;
    if (!value_is_true(call->subject)) {
        // Jinja does not even look at the arguments then.
        return value_generator_new(call->room, &no_items, call->out);
    }
    if (!value_iterate(call->room, call->subject, &list) ||
        (mapped = value_list_new(call->room, list->count)) == NULL) {
        return false;
    }
    bool by_attribute = false;
    for (uint32_t i = 0; i < call->arguments->named_count; i++) {
        by_attribute = by_attribute || slice_is(call->arguments->names[i], "attribute");
    }
    bool is_mapped = by_attribute && positional_count(call->arguments) == 0
                         ? map_attribute(call, list, mapped)
                         : map_filter(call, list, mapped);
    return is_mapped && value_generator_new(call->room, mapped, call->out);
}

// What select, reject, selectattr and rejectattr are given.
struct selection {
    const struct value *attribute; // NULL: the item itself is tested
    const struct value *name;      // of the test; NULL: whether it is true
    const struct builtin *test;
    struct call_arguments rest;
};

static bool selection_passes(const struct selection *selection, struct value_room *room,
                             const struct value *item, bool *out)
{
    ASSERT(selection->test == NULL || selection->name != NULL);
    struct value tested;
    struct value result;
    if (!builtin_attribute(room, item, selection->attribute, NULL, &tested)) {
        return false;
    }
    if (selection->test == NULL) {
        *out = value_is_true(&tested);
        return true;
    }
    if (!builtin_run(selection->test, room, &tested, &selection->rest, &result)) {
        return false;
    }
    *out = value_is_true(&result);
    return true;
}

// The arguments: an attribute if the variant asks for one, the name of a test, arguments of that test.
static bool selection_read(struct selection *selection, const struct builtin_call *call)
{
    uint32_t next = 0;
    uint32_t placed = positional_count(call->arguments);
    if ((call->builtin->variant & SELECT_BY_ATTRIBUTE) != 0) {
        if (placed == 0) {
            return value_raise(call->room, "Missing parameter for attribute name");
        }
        selection->attribute = &call->arguments->values[next++];
    }
    if (placed > next) {
        selection->name = &call->arguments->values[next++];
        selection->test =
            selection->name->kind == VALUE_STRING ? builtin_test(selection->name->string) : NULL;
    }
    selection->rest = arguments_after(call->arguments, next);
    return true;
}

bool filter_select(const struct builtin_call *call)
{
    static const struct value_list no_items;
    const struct value_list *list = NULL;
    struct value_list *kept = NULL;
    struct selection selection = {0};
    bool keeps = (call->builtin->variant & SELECT_KEEPS) != 0;
    if (!value_is_true(call->subject)) {
        return value_generator_new(call->room, &no_items, call->out);
    }
    if (!selection_read(&selection, call) || !value_iterate(call->room, call->subject, &list) ||
        (kept = value_list_new(call->room, list->count)) == NULL) {
        return false;
    }
    if (selection.name != NULL && selection.test == NULL && list->count > 0) {
        return refuse_name(call->room, "test", selection.name);
    }
    kept->count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        bool passed = false;
        if (!selection_passes(&selection, call->room, &list->items[i], &passed)) {
            return false;
        }
        ASSERT_SLOW(kept->count <= i);
        if (passed == keeps) {
            kept->items[kept->count++] = list->items[i];
        }
    }
    return value_generator_new(call->room, kept, call->out);
}

// Items [from, to) of a list, and as many of the second argument after them as say.
static bool cut_items(const struct builtin_call *call, const struct value_list *list,
                      const uint32_t range[2], uint32_t fill_count, struct value *out)
{
    ASSERT(range[0] <= range[1] && range[1] <= list->count);
    struct value_list *part = value_list_new(call->room, range[1] - range[0] + fill_count);
    if (part == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < part->count; i++) {
        part->items[i] = range[0] + i < range[1] ? list->items[range[0] + i] : *call->given[1];
    }
    *out = value_of_list(part);
    return call_takes_steps(call, 1 + part->count);
}

// How many batch and slice are told to make, and of what.
static bool read_cuts(const struct builtin_call *call, const struct value_list **list,
                      uint32_t *out)
{
    int64_t count = 0;
    if (!call_integer(call, 0, 0, &count)) {
        return false;
    }
    if (count < 1 || count > 1000000) {
        (void)value_raise(call->room, "%s by %s is not implemented",
                          (const char *)call->builtin->name.bytes,
                          count < 1 ? "less than one" : "so many");
        return false;
    }
    *out = (uint32_t)count;
    return value_iterate(call->room, call->subject, list);
}

bool filter_batch(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    uint32_t size = 0;
    if (!read_cuts(call, &list, &size)) {
        return false;
    }
    struct value_list *batches = value_list_new(call->room, (list->count + size - 1) / size);
    if (batches == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < batches->count; i++) {
        uint32_t left = list->count - i * size;
        uint32_t range[2] = {i * size, i * size + (left < size ? left : size)};
        uint32_t missing = call_has(call, 1) && left < size ? size - left : 0;
        if (!cut_items(call, list, range, missing, &batches->items[i])) {
            return false;
        }
    }
    return value_generator_new(call->room, batches, call->out);
}

bool filter_slice(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    uint32_t count = 0;
    if (!read_cuts(call, &list, &count)) {
        return false;
    }
    uint32_t size = list->count / count;
    uint32_t longer = list->count % count; // the first ones have one more
    struct value_list *slices = value_list_new(call->room, count);
    if (slices == NULL) {
        return false;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t range[2] = {at, at + size + (i < longer)};
        uint32_t missing = call_has(call, 1) && i >= longer;
        if (!cut_items(call, list, range, missing, &slices->items[i])) {
            return false;
        }
        at = range[1];
    }
    return value_generator_new(call->room, slices, call->out);
}
