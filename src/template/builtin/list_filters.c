// SPDX-License-Identifier: Apache-2.0
//
// Filters over the items of something.  Where Jinja returns a generator we return one too, computed
// at once: its items cannot change in between.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

static bool call_gives_generator(const struct builtin_call *call, const struct value_list *list)
{
    return call_gives(call, value_generator_new(call->room, list));
}

bool filter_length(const struct builtin_call *call)
{
    return call_gives(call, value_int(value_length(call->room, call->subject)));
}

bool filter_list(const struct builtin_call *call)
{
    return call_gives(call, value_of_list(value_iterate(call->room, call->subject)));
}

bool filter_items(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    if (subject->kind != VALUE_UNDEFINED && subject->kind != VALUE_DICT) {
        return value_raise(call->room, "Can only get item pairs from a mapping.");
    }
    return call_gives_generator(call,
                                subject->kind == VALUE_DICT
                                    ? value_dict_list(call->room, subject->dict, VALUE_DICT_ITEMS)
                                    : &value_no_items);
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
    struct value_generator whole = {0};
    struct value_generator *generator = &whole;
    if (subject->kind == VALUE_STRING && subject->string.size > 0) {
        const uint8_t *bytes = subject->string.bytes;
        return call_gives(call, value_string(slice_of(bytes, utf8_size_of_lead(bytes[0]))));
    }
    if (subject->kind == VALUE_GENERATOR) {
        generator = subject->generator; // the other items stay in it
    } else {
        whole.list = value_iterate(call->room, subject);
    }
    return call_gives(call, generator->next < generator->list->count
                                ? generator->list->items[generator->next++]
                                : value_undefined(slice_str("No first item, sequence was empty.")));
}

static bool can_be_reversed(const struct value *value)
{
    return value->kind == VALUE_UNDEFINED || value->kind == VALUE_VIEW ||
           (value->kind >= VALUE_STRING && value->kind <= VALUE_DICT);
}

bool filter_last(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    if (!can_be_reversed(subject)) {
        return value_raise(call->room, "'%s' object is not reversible", value_type_name(subject));
    }
    if (subject->kind == VALUE_STRING && subject->string.size > 0) {
        const uint8_t *end = subject->string.bytes + subject->string.size;
        const uint8_t *last = utf8_back(subject->string.bytes, end);
        return call_gives_text(call, slice_of(last, (size_t)(end - last)));
    }
    const struct value_list *list = value_iterate(call->room, subject);
    return call_gives(call, list->count > 0
                                ? list->items[list->count - 1]
                                : value_undefined(slice_str("No last item, sequence was empty.")));
}

static bool reverse_string(const struct builtin_call *call, struct slice string)
{
    uint8_t *bytes = value_bytes_new(call->room, string.size);
    size_t at = string.size;
    for (size_t i = 0; bytes != NULL && i < string.size;) {
        unsigned size = utf8_size_of_lead(string.bytes[i]);
        ASSERT_SLOW(size <= at); // strings are valid UTF-8
        at -= size;
        memcpy(bytes + at, string.bytes + i, size);
        i += size;
    }
    (void)value_step(call->room, 1 + string.size / 8);
    return call_gives_text(call, slice_of(bytes, string.size));
}

bool filter_reverse(const struct builtin_call *call)
{
    if (call->subject->kind == VALUE_STRING) {
        return reverse_string(call, call->subject->string);
    }
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *reversed =
        value_step(call->room, 1 + list->count) ? value_list_new(call->room, list->count) : NULL;
    for (uint32_t i = 0; reversed != NULL && i < list->count; i++) {
        reversed->items[i] = list->items[list->count - 1 - i];
    }
    return can_be_reversed(call->subject) ? call_gives_generator(call, reversed)
                                          : call_gives(call, value_of_list(reversed));
}

bool filter_join(const struct builtin_call *call)
{
    struct slice separator = {0};
    if (call->given[0] != NULL) {
        separator = value_to_string(call->room, call->given[0]);
    }
    const struct value_list *list = value_iterate(call->room, call->subject);
    (void)value_step(call->room, 1 + list->count);
    struct text text = value_text_open(call->room);
    for (uint32_t i = 0; i < list->count && !text.overflow; i++) {
        // Finding an attribute takes nothing from the arena.
        struct value item = builtin_attribute(call->room, &list->items[i], call->given[1], NULL);
        if (call->room->status != STATUS_OK) {
            return false;
        }
        text_add(&text, i > 0 ? separator : slice_of(NULL, 0));
        value_print(&item, &text);
    }
    return call_gives(call, value_text_end(call->room, &text));
}

// Items are sorted and compared by an attribute, without case unless told.
struct item_key {
    const struct value *attribute;
    bool case_sensitive;
};

static struct value item_key_of(struct value_room *room, const struct value *item,
                                const struct item_key *key)
{
    struct value found = builtin_attribute(room, item, key->attribute, NULL);
    if (found.kind == VALUE_STRING && !key->case_sensitive) {
        found = value_string(value_text_to_case(room, found.string, VALUE_TEXT_LOWER));
    }
    return found;
}

// The items in the order of their keys.
static bool sort_items(const struct builtin_call *call, const struct value_list *items,
                       const struct value_list *keys, bool reverse)
{
    struct value_list *sorted = value_list_new(call->room, items->count);
    const struct value **order =
        value_bytes_new(call->room, items->count * sizeof(const struct value *));
    if (call->room->status != STATUS_OK) {
        return false;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        order[i] = &keys->items[i];
    }
    value_sort(call->room, order, items->count, reverse);
    for (uint32_t i = 0; i < items->count; i++) {
        sorted->items[i] = items->items[order[i] - keys->items];
    }
    return call_gives(call, value_of_list(sorted));
}

// The attributes "a,b" of an item as a list; one alone is a list too, since lists compare
// differently: None is equal to None and has no order.
static struct value item_keys_of(struct value_room *room, const struct value *item,
                                 const struct item_key *key)
{
    bool is_path = key->attribute != NULL && key->attribute->kind == VALUE_STRING;
    struct slice rest = is_path ? key->attribute->string : slice_of(NULL, 0);
    uint32_t count = 1;
    for (size_t i = 0; i < rest.size; i++) {
        count += rest.bytes[i] == ',';
    }
    struct value_list *keys = value_list_new(room, count);
    for (uint32_t i = 0; keys != NULL && i < count; i++) {
        size_t comma = place_of(rest, slice_str(","), false);
        comma = comma == PLACE_NONE ? rest.size : comma;
        struct value part = value_string(slice_of(rest.bytes, comma));
        struct item_key one = {.attribute = is_path ? &part : key->attribute,
                               .case_sensitive = key->case_sensitive};
        keys->items[i] = item_key_of(room, item, &one);
        rest = comma < rest.size ? string_after(rest, comma + 1) : rest;
    }
    return value_of_list(keys);
}

bool filter_sort(const struct builtin_call *call)
{
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *keys = value_list_new(call->room, list->count);
    struct item_key key = {.attribute = call->given[2], .case_sensitive = call_is_true(call, 1)};
    for (uint32_t i = 0; i < list->count && call->room->status == STATUS_OK; i++) {
        keys->items[i] = item_keys_of(call->room, &list->items[i], &key);
    }
    return sort_items(call, list, keys, call_is_true(call, 0));
}

bool filter_dictsort(const struct builtin_call *call)
{
    struct slice by = call_string(call, 1, "key");
    bool by_value = slice_is(by, "value");
    if (!by_value && !slice_is(by, "key")) {
        return value_raise(call->room, "You can only sort by either \"key\" or \"value\"");
    }
    if (call->subject->kind != VALUE_DICT) {
        return value_raise(call->room, "'%s' object has no attribute 'items'",
                           value_type_name(call->subject));
    }
    const struct value_list *pairs =
        value_dict_list(call->room, call->subject->dict, VALUE_DICT_ITEMS);
    struct value_list *keys = value_list_new(call->room, pairs->count);
    struct item_key key = {.case_sensitive = call_is_true(call, 0)};
    for (uint32_t i = 0; i < pairs->count && call->room->status == STATUS_OK; i++) {
        keys->items[i] = item_key_of(call->room, &pairs->items[i].list->items[by_value], &key);
    }
    return sort_items(call, pairs, keys, call_is_true(call, 2));
}

bool filter_unique(const struct builtin_call *call)
{
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *kept = value_list_new(call->room, list->count);
    struct value_dict *seen = value_dict_new(call->room, list->count);
    if (kept == NULL || seen == NULL) {
        return false;
    }
    kept->count = 0;
    seen->count = 0;
    struct item_key key = {.attribute = call->given[1], .case_sensitive = call_is_true(call, 0)};
    for (uint32_t i = 0; i < list->count && call->room->status == STATUS_OK; i++) {
        struct value value = item_key_of(call->room, &list->items[i], &key);
        if (value_dict_find(call->room, seen, &value) == NULL) {
            seen->members[seen->count++] = (struct value_member){value, value_none()};
            kept->items[kept->count++] = list->items[i];
        }
    }
    return call_gives_generator(call, kept);
}

// min, and max as its variant.
bool filter_extreme(const struct builtin_call *call)
{
    const struct value_list *list = value_iterate(call->room, call->subject);
    int sign = call->builtin->variant != 0 ? 1 : -1;
    struct value extreme = value_undefined(slice_str("No aggregated item, sequence was empty."));
    struct item_key key = {.attribute = call->given[1], .case_sensitive = call_is_true(call, 0)};
    struct value best = value_none();
    for (uint32_t i = 0; i < list->count && call->room->status == STATUS_OK; i++) {
        struct value value = item_key_of(call->room, &list->items[i], &key);
        if (i == 0 || value_compare(call->room, &value, &best) == sign) {
            best = value;
            extreme = list->items[i];
        }
    }
    return call_gives(call, extreme);
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
static void map_attribute(const struct builtin_call *call, const struct value_list *list,
                          struct value_list *out)
{
    const struct value *attribute = call_named(call->arguments, slice_str("attribute"));
    const struct value *otherwise = call_named(call->arguments, slice_str("default"));
    for (uint32_t i = 0; i < call->arguments->named_count; i++) {
        struct slice name = call->arguments->names[i];
        if (!slice_is(name, "attribute") && !slice_is(name, "default")) {
            (void)value_raise(call->room, "map() got an unexpected keyword argument '%.*s'",
                              (int)(name.size < 40 ? name.size : 40), name.bytes);
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        out->items[i] = builtin_attribute(call->room, &list->items[i], attribute, otherwise);
    }
}

static void map_filter(const struct builtin_call *call, const struct value_list *list,
                       struct value_list *out)
{
    if (positional_count(call->arguments) == 0) {
        (void)value_raise(call->room, "map requires a filter argument");
        return;
    }
    const struct value *name = &call->arguments->values[0];
    const struct builtin *filter = name->kind == VALUE_STRING ? builtin_filter(name->string) : NULL;
    if (filter == NULL && list->count > 0) {
        (void)refuse_name(call->room, "filter", name);
        return;
    }
    // A mapped filter may map another one, and that a third: each takes a name from the arguments
    // of this call, so it ends.
    struct call_arguments rest = arguments_after(call->arguments, 1);
    for (uint32_t i = 0; i < list->count && value_step(call->room, 1); i++) {
        (void)builtin_run(filter, call->room, &list->items[i], &rest, &out->items[i]);
    }
}

bool filter_map(const struct builtin_call *call)
{
    if (!value_is_true(call->subject)) {
        // Jinja does not even look at the arguments then.
        return call_gives_generator(call, &value_no_items);
    }
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *mapped = value_list_new(call->room, list->count);
    bool by_attribute = positional_count(call->arguments) == 0 &&
                        call_named(call->arguments, slice_str("attribute")) != NULL;
    if (mapped == NULL) {
        return false;
    }
    if (by_attribute) {
        map_attribute(call, list, mapped);
    } else {
        map_filter(call, list, mapped);
    }
    return call_gives_generator(call, mapped);
}

// The arguments of select, reject, selectattr and rejectattr.
struct selection {
    const struct value *attribute; // NULL: the item itself is tested
    const struct value *name;      // of the test; NULL: whether it is true
    const struct builtin *test;
    struct call_arguments rest;
};

static bool selection_passes(const struct selection *selection, struct value_room *room,
                             const struct value *item)
{
    ASSERT(selection->test == NULL || selection->name != NULL);
    struct value tested = builtin_attribute(room, item, selection->attribute, NULL);
    struct value result = tested;
    if (selection->test != NULL) {
        (void)builtin_run(selection->test, room, &tested, &selection->rest, &result);
    }
    return value_is_true(&result);
}

// An attribute if the variant asks for one, the name of a test, arguments of that test.
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
    struct selection selection = {0};
    bool keeps = (call->builtin->variant & SELECT_KEEPS) != 0;
    if (!value_is_true(call->subject)) {
        return call_gives_generator(call, &value_no_items);
    }
    if (!selection_read(&selection, call)) {
        return false;
    }
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *kept = value_list_new(call->room, list->count);
    if (kept == NULL) {
        return false;
    }
    if (selection.name != NULL && selection.test == NULL && list->count > 0) {
        return refuse_name(call->room, "test", selection.name);
    }
    kept->count = 0;
    for (uint32_t i = 0; i < list->count && call->room->status == STATUS_OK; i++) {
        if (selection_passes(&selection, call->room, &list->items[i]) == keeps) {
            kept->items[kept->count++] = list->items[i];
        }
    }
    return call_gives_generator(call, kept);
}

// Items [from, to) of a list, then `fill_count` times the second argument.
static struct value cut_items(const struct builtin_call *call, const struct value_list *list,
                              const uint32_t range[2], uint32_t fill_count)
{
    ASSERT(range[0] <= range[1] && range[1] <= list->count);
    struct value_list *part = value_list_new(call->room, range[1] - range[0] + fill_count);
    for (uint32_t i = 0; part != NULL && i < part->count; i++) {
        part->items[i] = range[0] + i < range[1] ? list->items[range[0] + i] : *call->given[1];
    }
    (void)value_step(call->room, 1 + range[1] - range[0] + fill_count);
    return value_of_list(part);
}

// The first argument of batch and slice; 0: it failed.
static uint32_t read_cuts(const struct builtin_call *call)
{
    int64_t count = call_integer(call, 0, 0);
    if (count < 1 || count > 1000000) {
        return value_raise(call->room, "%s by %s is not implemented",
                           (const char *)call->builtin->name.bytes,
                           count < 1 ? "less than one" : "so many");
    }
    return (uint32_t)count;
}

bool filter_batch(const struct builtin_call *call)
{
    uint32_t size = read_cuts(call);
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *batches =
        size > 0 ? value_list_new(call->room, (list->count + size - 1) / size) : NULL;
    for (uint32_t i = 0; batches != NULL && i < batches->count; i++) {
        uint32_t left = list->count - i * size;
        uint32_t range[2] = {i * size, i * size + (left < size ? left : size)};
        uint32_t missing = call_has(call, 1) && left < size ? size - left : 0;
        batches->items[i] = cut_items(call, list, range, missing);
    }
    return call_gives_generator(call, batches);
}

bool filter_slice(const struct builtin_call *call)
{
    uint32_t count = read_cuts(call);
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct value_list *slices = count > 0 ? value_list_new(call->room, count) : NULL;
    uint32_t at = 0;
    for (uint32_t i = 0; slices != NULL && i < count; i++) {
        bool is_longer = i < list->count % count; // the first ones have one more
        uint32_t range[2] = {at, at + list->count / count + is_longer};
        slices->items[i] = cut_items(call, list, range, call_has(call, 1) && !is_longer);
        at = range[1];
    }
    return call_gives_generator(call, slices);
}
