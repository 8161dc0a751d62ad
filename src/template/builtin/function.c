// SPDX-License-Identifier: Apache-2.0

#include "template/builtin/function.h"

#include "base/base.h"
#include "template/builtin/builtins_internal.h"
#include "template/render_internal.h"

// The sandbox of Jinja has the same bound.
enum { range_max = 100000 };

static bool call_range(struct render *render, const struct call_arguments *arguments,
                       struct value *out)
{
    struct value_room *room = &render->room;
    int64_t bounds[3] = {0, 0, 1};

    if (arguments->count == 0 || arguments->count > 3 || arguments->named_count > 0) {
        return value_raise(room, "range() takes 1 to 3 arguments");
    }
    uint32_t shift = arguments->count == 1 ? 1 : 0;
    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct value *value = &arguments->values[i];
        if (!value_is_whole(value)) {
            return value_raise(room, "range() takes whole numbers, not '%s'",
                               value_type_name(value));
        }
        bounds[i + shift] = value_whole(value);
    }
    int64_t step = bounds[2];
    if (step == 0) {
        return value_raise(room, "range() arg 3 must not be zero");
    }
    int64_t distance;
    bool overflow = step > 0 ? __builtin_sub_overflow(bounds[1], bounds[0], &distance)
                             : __builtin_sub_overflow(bounds[0], bounds[1], &distance);
    if (overflow || step == INT64_MIN) {
        return value_raise(room, "range too big");
    }
    int64_t count = distance > 0 ? (distance - 1) / (step > 0 ? step : -step) + 1 : 0;
    if (count > range_max) {
        return value_raise(room, "range too big");
    }
    struct value_list *list = value_list_new(room, (uint32_t)count);
    if (list == NULL || !value_step(room, (uint64_t)count + 1)) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        list->items[i] = value_int(bounds[0] + i * step);
    }
    *out = value_of_list(list);
    return true;
}

// The members of a dict, or of a list of pairs.
static bool put_all(struct value_room *room, struct value_dict *dict, const struct value *from)
{
    if (from->kind == VALUE_DICT) {
        for (uint32_t i = 0; i < from->dict->count; i++) {
            const struct value_member *member = &from->dict->members[i];
            if (!value_dict_put(room, dict, &member->key, &member->value)) {
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
            return value_raise(room, "dict() takes pairs");
        }
        if (!value_dict_put(room, dict, &pair->items[0], &pair->items[1])) {
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
        (void)value_raise(room, "dict() takes one argument");
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
            from = value_of_list(list);
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
        if (!value_dict_put(room, dict, &key, &arguments->values[positional + i])) {
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
            return value_raise(&render->room,
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
        return value_raise(&render->room, "raise_exception() takes one argument");
    }
    if (!value_to_string(&render->room, &arguments->values[0], &message)) {
        return false;
    }
    return value_raise(&render->room, "%.*s", (int)message.size, message.bytes);
}

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};

static bool format_time(struct value_room *room, const struct template_time *now,
                        struct slice format, struct text *out);

// Letters that stand for a number, padded to so many digits; `letter` 'e' pads with blanks.
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

// What a letter after '%' stands for; NULL: it is not implemented.  A '%' in it is a letter again.
static const char *time_text(const struct template_time *now, uint8_t letter)
{
    ASSERT(now->weekday < ARRAY_COUNT(weekdays) && now->month >= 1 && now->month <= 12);
    switch (letter) {
    case 'A':
    case 'a':
        return weekdays[now->weekday];
    case 'B':
    case 'b':
    case 'h':
        return months[now->month - 1];
    case 'p':
        return now->hour < 12 ? "AM" : "PM";
    case 'F':
        return "%Y-%m-%d";
    case 'T':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'D':
        return "%m/%d/%y";
    case 'Z': // a naive time has no zone
    case 'z':
        return "";
    case 'n':
        return "\n";
    case 't':
        return "\t";
    default:
        return NULL;
    }
}

static bool add_time_letter(struct value_room *room, const struct template_time *now,
                            uint8_t letter, bool is_padded, struct text *out)
{
    if (letter == '%') {
        text_add_str(out, "%");
        return true;
    }
    if (add_time_number(now, letter, is_padded, out)) {
        return true;
    }
    const char *text = time_text(now, letter);
    if (text == NULL) {
        return value_raise(room, "strftime_now: '%%%c' is not implemented",
                           letter >= 0x20 && letter < 0x7f ? letter : '?');
    }
    bool is_short = letter == 'a' || letter == 'b' || letter == 'h';
    return format_time(room, now, is_short ? slice_of(text, 3) : slice_str(text), out);
}

static bool format_time(struct value_room *room, const struct template_time *now,
                        struct slice format, struct text *out)
{
    for (size_t i = 0; i < format.size; i++) {
        if (format.bytes[i] != '%') {
            text_add(out, slice_of(format.bytes + i, 1));
            continue;
        }
        // As glibc has it: "%-d" is not padded.
        bool is_padded = i + 1 >= format.size || format.bytes[i + 1] != '-';
        i += is_padded ? 1 : 2;
        if (!add_time_letter(room, now, i < format.size ? format.bytes[i] : '\0', is_padded, out)) {
            return false;
        }
    }
    return true;
}

static bool call_strftime_now(struct render *render, const struct call_arguments *arguments,
                              struct value *out)
{
    enum { date_size_max = 256 };
    if (arguments->count != 1 || arguments->values[0].kind != VALUE_STRING) {
        return value_raise(&render->room, "strftime_now() takes one string");
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
