// SPDX-License-Identifier: Apache-2.0

#include "template/builtin/function.h"

#include "base/base.h"
#include "template/builtin/builtins_internal.h"
#include "template/render_internal.h"

// The sandbox of Jinja has the same bound.
enum { range_max = 100000 };

static struct value function_fail(struct render *render, const char *why)
{
    (void)value_raise(&render->room, "%s", why);
    return value_none();
}

static struct value call_range(struct render *render, const struct call_arguments *arguments)
{
    struct value_room *room = &render->room;
    int64_t bounds[3] = {0, 0, 1};

    if (arguments->count == 0 || arguments->count > 3 || arguments->named_count > 0) {
        return function_fail(render, "range() takes 1 to 3 arguments");
    }
    uint32_t shift = arguments->count == 1 ? 1 : 0;
    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct value *value = &arguments->values[i];
        if (!value_is_whole(value)) {
            (void)value_raise(room, "range() takes whole numbers, not '%s'",
                              value_type_name(value));
            return value_none();
        }
        bounds[i + shift] = value_whole(value);
    }
    int64_t step = bounds[2];
    if (step == 0) {
        return function_fail(render, "range() arg 3 must not be zero");
    }
    int64_t distance;
    bool overflow = step > 0 ? __builtin_sub_overflow(bounds[1], bounds[0], &distance)
                             : __builtin_sub_overflow(bounds[0], bounds[1], &distance);
    if (overflow || step == INT64_MIN) {
        return function_fail(render, "range too big");
    }
    int64_t count = distance > 0 ? (distance - 1) / (step > 0 ? step : -step) + 1 : 0;
    if (count > range_max) {
        return function_fail(render, "range too big");
    }
    struct value_list *list = value_list_new(room, (uint32_t)count);
    (void)value_step(room, (uint64_t)count + 1);
    for (int64_t i = 0; list != NULL && i < count; i++) {
        list->items[i] = value_int(bounds[0] + i * step);
    }
    return value_of_list(list);
}

// The members of a dict, or of a list of pairs.
static void put_all(struct value_room *room, struct value_dict *dict, const struct value *from)
{
    if (from->kind == VALUE_DICT) {
        for (uint32_t i = 0; i < from->dict->count; i++) {
            const struct value_member *member = &from->dict->members[i];
            value_dict_put(room, dict, &member->key, &member->value);
        }
        return;
    }
    const struct value_list *pairs = value_iterate(room, from);
    for (uint32_t i = 0; i < pairs->count; i++) {
        const struct value_list *pair = value_iterate(room, &pairs->items[i]);
        if (pair->count != 2) {
            (void)value_raise(room, "dict() takes pairs");
            return;
        }
        value_dict_put(room, dict, &pair->items[0], &pair->items[1]);
    }
}

// NULL when it fails.
static struct value_dict *make_dict(struct render *render, const struct call_arguments *arguments)
{
    struct value_room *room = &render->room;
    uint32_t positional = positional_count(arguments);
    struct value from = positional > 0 ? arguments->values[0] : value_of_dict(&value_no_members);
    if (positional > 1) {
        (void)value_raise(room, "dict() takes one argument");
    }
    if (from.kind == VALUE_GENERATOR) {
        from = value_of_list(value_iterate(room, &from));
    }
    uint32_t length = value_length(room, &from);
    // Every member is compared with those before it.
    uint64_t count = (uint64_t)length + arguments->named_count;
    (void)value_step(room, count * count / 16 + 1);
    struct value_dict *dict = value_dict_new(room, length + arguments->named_count);
    if (dict == NULL) {
        return NULL;
    }
    dict->count = 0;
    put_all(room, dict, &from);
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        struct value key = value_string(arguments->names[i]);
        value_dict_put(room, dict, &key, &arguments->values[positional + i]);
    }
    return room->status == STATUS_OK ? dict : NULL;
}

static struct value call_dict(struct render *render, const struct call_arguments *arguments)
{
    return value_of_dict(make_dict(render, arguments));
}

static struct value call_namespace(struct render *render, const struct call_arguments *arguments)
{
    struct value_dict *dict = make_dict(render, arguments);
    struct value_space *space = value_bytes_new(&render->room, sizeof(*space));
    if (dict == NULL || space == NULL) {
        return value_none();
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value *key = &dict->members[i].key;
        if (key->kind == VALUE_STRING && slice_starts_with(key->string, "_")) {
            return function_fail(render, "a namespace has no names with an underscore in front");
        }
    }
    *space = (struct value_space){.dict = dict, .capacity = dict->count};
    return (struct value){.kind = VALUE_NAMESPACE, .space = space};
}

static struct value call_raise_exception(struct render *render,
                                         const struct call_arguments *arguments)
{
    if (arguments->count != 1) {
        return function_fail(render, "raise_exception() takes one argument");
    }
    struct slice message = value_to_string(&render->room, &arguments->values[0]);
    (void)value_raise(&render->room, "%.*s", (int)message.size, message.bytes);
    return value_none();
}

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};

static void format_time(struct value_room *room, const struct template_time *now,
                        struct slice format, struct text *out);

// Letters for numbers, padded to so many digits; 'e' pads with blanks.
static bool add_time_number(const struct template_time *now, uint8_t letter, bool is_padded,
                            struct text *out)
{
    const struct {
        uint8_t letter;
        int digits;
        int number;
    } numbers[] = {
        {'Y', 1, now->year},   {'y', 2, now->year % 100},
        {'m', 2, now->month},  {'d', 2, now->day},
        {'e', 2, now->day},    {'j', 3, now->year_day},
        {'H', 2, now->hour},   {'I', 2, (now->hour + 11) % 12 + 1},
        {'M', 2, now->minute}, {'S', 2, now->second},
    };
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (numbers[i].letter == letter) {
            text_add_format(out, letter == 'e' ? "%*d" : "%0*d", is_padded ? numbers[i].digits : 0,
                            numbers[i].number);
            return true;
        }
    }
    return false;
}

// The text of a letter after '%', which may have letters of its own.
static void add_time_letter(struct value_room *room, const struct template_time *now,
                            uint8_t letter, struct text *out)
{
    ASSERT(now->weekday < ARRAY_COUNT(weekdays) && now->month >= 1 && now->month <= 12);
    const char *weekday = weekdays[now->weekday];
    const char *month = months[now->month - 1];
    const struct {
        uint8_t letter;
        struct slice text;
    } texts[] = {
        {'A', slice_str(weekday)},    {'a', slice_of(weekday, 3)},
        {'B', slice_str(month)},      {'b', slice_of(month, 3)},
        {'h', slice_of(month, 3)},    {'p', slice_str(now->hour < 12 ? "AM" : "PM")},
        {'F', slice_str("%Y-%m-%d")}, {'T', slice_str("%H:%M:%S")},
        {'R', slice_str("%H:%M")},    {'D', slice_str("%m/%d/%y")},
        {'Z', slice_str("")}, // a naive time has no zone
        {'z', slice_str("")},         {'n', slice_str("\n")},
        {'t', slice_str("\t")},
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (texts[i].letter == letter) {
            format_time(room, now, texts[i].text, out);
            return;
        }
    }
    (void)value_raise(room, "strftime_now: '%%%c' is not implemented",
                      letter >= 0x20 && letter < 0x7f ? letter : '?');
}

static void format_time(struct value_room *room, const struct template_time *now,
                        struct slice format, struct text *out)
{
    for (size_t i = 0; i < format.size && room->status == STATUS_OK; i++) {
        if (format.bytes[i] != '%') {
            text_add(out, slice_of(format.bytes + i, 1));
            continue;
        }
        // As glibc has it: "%-d" is not padded.
        bool is_padded = i + 1 >= format.size || format.bytes[i + 1] != '-';
        i += is_padded ? 1 : 2;
        uint8_t letter = i < format.size ? format.bytes[i] : '\0';
        if (letter == '%') {
            text_add_str(out, "%");
        } else if (!add_time_number(now, letter, is_padded, out)) {
            add_time_letter(room, now, letter, out);
        }
    }
}

static struct value call_strftime_now(struct render *render, const struct call_arguments *arguments)
{
    enum { date_size_max = 256 };
    if (arguments->count != 1 || arguments->values[0].kind != VALUE_STRING) {
        return function_fail(render, "strftime_now() takes one string");
    }
    uint8_t *bytes = value_bytes_new(&render->room, date_size_max);
    struct text text = text_over(bytes, bytes != NULL ? date_size_max : 0);
    render->used_time = true;
    format_time(&render->room, &render->input->now, arguments->values[0].string, &text);
    if (text.overflow) {
        (void)value_fail(&render->room, STATUS_TOO_LARGE, "strftime_now: the format is too long");
    }
    return value_string(text_slice(&text));
}

#define FUNCTION(id)                                                                               \
    {                                                                                              \
        .kind = CALLABLE_FUNCTION, .function = {.name = #id, .call = call_##id }                   \
    }

static const struct value_callable functions[] = {
    FUNCTION(dict),  FUNCTION(namespace),    FUNCTION(raise_exception),
    FUNCTION(range), FUNCTION(strftime_now),
};

const struct value_callable *function_find(struct slice name)
{
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        if (slice_is(name, functions[i].function.name)) {
            return &functions[i];
        }
    }
    return NULL;
}
