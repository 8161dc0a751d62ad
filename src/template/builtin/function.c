// SPDX-License-Identifier: Apache-2.0

#include "template/builtin/function.h"

#include "base/base.h"
#include "template/render_internal.h"

// The sandbox of Jinja has the same bound.
enum { range_max = 100000 };

static uint32_t positional_count(const struct call_arguments *arguments)
{
    return arguments->count - arguments->named_count;
}

static bool read_integer(struct value_room *room, const struct value *value, int64_t *out)
{
    if (value->kind != VALUE_INT && value->kind != VALUE_BOOL) {
        return value_fail(room, STATUS_MALFORMED, "range() takes whole numbers, not '%s'",
                          value_type_name(value));
    }
    *out = value->kind == VALUE_INT ? value->integer : value->boolean;
    return true;
}

static bool call_range(struct render *render, const struct call_arguments *arguments,
                       struct value *out)
{
    struct value_room *room = &render->room;
    int64_t bounds[3] = {0, 0, 1};

    if (arguments->count == 0 || arguments->count > 3 || arguments->named_count > 0) {
        return value_fail(room, STATUS_MALFORMED, "range() takes 1 to 3 arguments");
    }
    uint32_t shift = arguments->count == 1 ? 1 : 0;
    for (uint32_t i = 0; i < arguments->count; i++) {
        if (!read_integer(room, &arguments->values[i], &bounds[i + shift])) {
            return false;
        }
    }
    int64_t step = bounds[2];
    if (step == 0) {
        return value_fail(room, STATUS_MALFORMED, "range() arg 3 must not be zero");
    }
    int64_t distance;
    bool overflow = step > 0 ? __builtin_sub_overflow(bounds[1], bounds[0], &distance)
                             : __builtin_sub_overflow(bounds[0], bounds[1], &distance);
    if (overflow || step == INT64_MIN) {
        return value_fail(room, STATUS_MALFORMED, "range too big");
    }
    int64_t count = distance > 0 ? (distance - 1) / (step > 0 ? step : -step) + 1 : 0;
    if (count > range_max) {
        return value_fail(room, STATUS_MALFORMED, "range too big");
    }
    struct value_list *list = value_list_new(room, (uint32_t)count);
    if (list == NULL || !value_step(room, (uint64_t)count + 1)) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        list->items[i] = value_int(bounds[0] + i * step);
    }
    *out = (struct value){.kind = VALUE_LIST, .list = list};
    return true;
}

// A table of members that grows: each key once, at its first place, with its last value.
static bool put_member(struct value_room *room, struct value_dict *dict, const struct value *key,
                       const struct value *value)
{
    const struct value *found;
    if (!value_dict_find(room, dict, key, &found)) {
        return false;
    }
    for (uint32_t i = 0; found != NULL && i < dict->count; i++) {
        if (&dict->members[i].value == found) {
            dict->members[i].value = *value;
            return true;
        }
    }
    dict->members[dict->count++] = (struct value_member){.key = *key, .value = *value};
    return true;
}

// The members of a dict, or of a list of pairs.
static bool put_all(struct value_room *room, struct value_dict *dict, const struct value *from)
{
    if (from->kind == VALUE_DICT) {
        for (uint32_t i = 0; i < from->dict->count; i++) {
            const struct value_member *member = &from->dict->members[i];
            if (!put_member(room, dict, &member->key, &member->value)) {
                return false;
            }
        }
        return true;
    }
    const struct value_list *pairs;
    if (!value_iterate(room, from, &pairs)) {
        return false;
    }
    for (uint32_t i = 0; i < pairs->count; i++) {
        const struct value_list *pair;
        if (!value_iterate(room, &pairs->items[i], &pair)) {
            return false;
        }
        if (pair->count != 2) {
            return value_fail(room, STATUS_MALFORMED, "dict() takes pairs");
        }
        if (!put_member(room, dict, &pair->items[0], &pair->items[1])) {
            return false;
        }
    }
    return true;
}

// NULL when it fails.
static struct value_dict *make_dict(struct render *render, const struct call_arguments *arguments)
{
    struct value_room *room = &render->room;
    uint32_t positional = positional_count(arguments);
    uint32_t length = 0;

    if (positional > 1) {
        (void)value_fail(room, STATUS_MALFORMED, "dict() takes one argument");
        return NULL;
    }
    struct value from = {.kind = VALUE_UNDEFINED};
    if (positional == 1) {
        from = arguments->values[0];
        if (from.kind == VALUE_GENERATOR) {
            const struct value_list *list;
            if (!value_iterate(room, &from, &list)) {
                return NULL;
            }
            from = (struct value){.kind = VALUE_LIST, .list = list};
        }
        if (!value_length(room, &from, &length)) {
            return NULL;
        }
    }
    // Every member is looked for among those before it.
    uint64_t count = (uint64_t)length + arguments->named_count;
    if (!value_step(room, count * count / 16 + 1)) {
        return NULL;
    }
    struct value_dict *dict = value_dict_new(room, length + arguments->named_count);
    if (dict == NULL) {
        return NULL;
    }
    dict->count = 0;
    if (positional == 1 && !put_all(room, dict, &from)) {
        return NULL;
    }
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        struct value key = value_string(arguments->names[i]);
        if (!put_member(room, dict, &key, &arguments->values[positional + i])) {
            return NULL;
        }
    }
    return dict;
}

static bool call_dict(struct render *render, const struct call_arguments *arguments,
                      struct value *out)
{
    struct value_dict *dict = make_dict(render, arguments);
    if (dict == NULL) {
        return false;
    }
    *out = (struct value){.kind = VALUE_DICT, .dict = dict};
    return true;
}

static bool call_namespace(struct render *render, const struct call_arguments *arguments,
                           struct value *out)
{
    struct value_dict *dict = make_dict(render, arguments);
    if (dict == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value *key = &dict->members[i].key;
        if (key->kind == VALUE_STRING && key->string.size > 0 && key->string.bytes[0] == '_') {
            return value_fail(&render->room, STATUS_MALFORMED,
                              "a namespace has no names with an underscore in front");
        }
    }
    struct value_space *space = (void *)value_bytes_new(&render->room, sizeof(*space));
    if (space == NULL) {
        return false;
    }
    *space = (struct value_space){
        .count = dict->count,
        .capacity = dict->count,
        .members = dict->members,
    };
    *out = (struct value){.kind = VALUE_NAMESPACE, .space = space};
    return true;
}

static bool call_raise_exception(struct render *render, const struct call_arguments *arguments,
                                 struct value *out)
{
    (void)out;
    struct slice message;
    if (arguments->count != 1) {
        return value_fail(&render->room, STATUS_MALFORMED, "raise_exception() takes one argument");
    }
    if (!value_to_string(&render->room, &arguments->values[0], &message)) {
        return false;
    }
    return value_fail(&render->room, STATUS_MALFORMED, "%.*s", (int)message.size, message.bytes);
}

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};

static void add_number(struct text *out, int32_t number, int digits, char pad)
{
    int width = pad == '\0' ? 0 : digits;
    text_add_format(out, pad == '0' ? "%0*d" : "%*d", width, number);
}

static bool add_day(const struct template_time *now, uint8_t letter, char pad, struct text *out)
{
    switch (letter) {
    case 'A':
        text_add_str(out, weekdays[now->weekday % ARRAY_COUNT(weekdays)]);
        return true;
    case 'a':
        text_add(out, slice_of(weekdays[now->weekday % ARRAY_COUNT(weekdays)], 3));
        return true;
    case 'B':
        text_add_str(out, months[(now->month + 11) % ARRAY_COUNT(months)]);
        return true;
    case 'b':
    case 'h':
        text_add(out, slice_of(months[(now->month + 11) % ARRAY_COUNT(months)], 3));
        return true;
    case 'Y':
        text_add_format(out, "%d", now->year);
        return true;
    case 'y':
        add_number(out, now->year % 100, 2, pad);
        return true;
    case 'm':
        add_number(out, now->month, 2, pad);
        return true;
    case 'd':
        add_number(out, now->day, 2, pad);
        return true;
    case 'e':
        add_number(out, now->day, 2, (char)(pad == '0' ? ' ' : pad));
        return true;
    case 'j':
        add_number(out, now->year_day, 3, pad);
        return true;
    default:
        return false;
    }
}

static bool add_hour(const struct template_time *now, uint8_t letter, char pad, struct text *out)
{
    switch (letter) {
    case 'H':
        add_number(out, now->hour, 2, pad);
        return true;
    case 'I':
        add_number(out, (now->hour + 11) % 12 + 1, 2, pad);
        return true;
    case 'M':
        add_number(out, now->minute, 2, pad);
        return true;
    case 'S':
        add_number(out, now->second, 2, pad);
        return true;
    case 'p':
        text_add_str(out, now->hour < 12 ? "AM" : "PM");
        return true;
    case 'F':
        text_add_format(out, "%d-%02u-%02u", now->year, now->month, now->day);
        return true;
    case 'T':
        text_add_format(out, "%02u:%02u:%02u", now->hour, now->minute, now->second);
        return true;
    case 'R':
        text_add_format(out, "%02u:%02u", now->hour, now->minute);
        return true;
    case 'D':
        text_add_format(out, "%02u/%02u/%02d", now->month, now->day, now->year % 100);
        return true;
    case 'Z': // a naive time has no zone
    case 'z':
        return true;
    case 'n':
        text_add_str(out, "\n");
        return true;
    case 't':
        text_add_str(out, "\t");
        return true;
    case '%':
        text_add_str(out, "%");
        return true;
    default:
        return false;
    }
}

static bool format_time(struct value_room *room, const struct template_time *now,
                        struct slice format, struct text *out)
{
    for (size_t i = 0; i < format.size; i++) {
        if (format.bytes[i] != '%') {
            text_add(out, slice_of(format.bytes + i, 1));
            continue;
        }
        char pad = '0';
        if (i + 1 < format.size && format.bytes[i + 1] == '-') { // as glibc has it: no padding
            pad = '\0';
            i++;
        }
        uint8_t letter = ++i < format.size ? format.bytes[i] : '\0';
        if (!add_day(now, letter, pad, out) && !add_hour(now, letter, pad, out)) {
            return value_fail(room, STATUS_MALFORMED, "strftime_now: '%%%c' is not implemented",
                              letter >= 0x20 && letter < 0x7f ? letter : '?');
        }
    }
    return true;
}

static bool call_strftime_now(struct render *render, const struct call_arguments *arguments,
                              struct value *out)
{
    enum { date_size_max = 256 };
    if (arguments->count != 1 || arguments->values[0].kind != VALUE_STRING) {
        return value_fail(&render->room, STATUS_MALFORMED, "strftime_now() takes one string");
    }
    uint8_t *bytes = value_bytes_new(&render->room, date_size_max);
    if (bytes == NULL) {
        return false;
    }
    struct text text = text_over(bytes, date_size_max);
    render->used_time = true;
    if (!format_time(&render->room, &render->input->now, arguments->values[0].string, &text)) {
        return false;
    }
    if (text.overflow) {
        return value_fail(&render->room, STATUS_TOO_LARGE, "strftime_now: the format is too long");
    }
    *out = value_string(text_slice(&text));
    return true;
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
