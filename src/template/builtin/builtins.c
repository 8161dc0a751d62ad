// SPDX-License-Identifier: Apache-2.0
//
// The table of builtins, and the binding of arguments to parameters.

#include "base/base.h"
#include "template/ast_internal.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

#define K(kind) (1u << VALUE_##kind)
#define SEQUENCES (K(STRING) | K(LIST) | K(TUPLE) | K(DICT))
#define TAKES(required_count, ...) .required = (required_count), .parameters = {__VA_ARGS__}
#define ROW(text, function, variant_value, trait_bits, ...)                                        \
    {                                                                                              \
        .name = {(const uint8_t *)(text), sizeof(text) - 1}, .run = (function),                    \
        .variant = (variant_value), .traits = (trait_bits), __VA_ARGS__                            \
    }

static const struct builtin filters[] = {
#define FILTER(...) ROW(__VA_ARGS__),
#include "template/builtin/builtins.def"
};

static const struct builtin tests[] = {
#define IS(...) ROW(__VA_ARGS__),
#include "template/builtin/builtins.def"
};

static const struct {
    enum value_kind kind;
    struct builtin builtin;
} methods[] = {
#define METHOD(kind, ...) {VALUE_##kind, ROW(__VA_ARGS__)},
#include "template/builtin/builtins.def"
};

static const char *const missing_filters[] = {
#define NO_FILTER(name) name,
#include "template/builtin/builtins.def"
};

static const struct builtin *builtin_find(const struct builtin *rows, size_t count,
                                          struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct builtin *builtin_filter(struct slice name)
{
    return builtin_find(filters, ARRAY_COUNT(filters), name);
}

bool builtin_is_filter_name(struct slice name)
{
    bool found = builtin_filter(name) != NULL;
    for (size_t i = 0; i < ARRAY_COUNT(missing_filters) && !found; i++) {
        found = slice_is(name, missing_filters[i]);
    }
    return found;
}

const struct builtin *builtin_test(struct slice name)
{
    return builtin_find(tests, ARRAY_COUNT(tests), name);
}

const struct builtin *builtin_method(enum value_kind kind, struct slice name)
{
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
        if (methods[i].kind == kind && slice_equal(methods[i].builtin.name, name)) {
            return &methods[i].builtin;
        }
    }
    return NULL;
}

// The parameter of a keyword argument; call_parameter_max: the builtin has no such parameter.
static uint32_t named_parameter(const struct builtin *builtin, struct slice name)
{
    for (uint32_t i = 0; i < call_parameter_max && builtin->parameters[i] != NULL; i++) {
        if (name.size > 0 && slice_is(name, builtin->parameters[i])) {
            return i;
        }
    }
    return call_parameter_max;
}

static bool builtin_bind(struct builtin_call *call)
{
    const struct builtin *builtin = call->builtin;
    const struct call_arguments *arguments = call->arguments;
    const char *name = (const char *)builtin->name.bytes;
    uint32_t placed = positional_count(arguments);
    uint32_t parameters = 0;
    while (parameters < call_parameter_max && builtin->parameters[parameters] != NULL) {
        parameters++;
    }
    ASSERT(builtin->required <= parameters);
    if (parameters == 0) {
        return value_raise(call->room, "%s() takes no arguments (%u given)", name,
                           arguments->count);
    }
    if (placed > parameters) {
        return value_raise(call->room, "%s() takes at most %u arguments (%u given)", name,
                           parameters, placed);
    }
    for (uint32_t i = 0; i < placed; i++) {
        call->given[i] = &arguments->values[i];
    }
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        struct slice given = arguments->names[i];
        uint32_t parameter = named_parameter(builtin, given);
        if (parameter == call_parameter_max) {
            return value_raise(call->room, "%s() got an unexpected keyword argument '%.*s'", name,
                               (int)(given.size < 40 ? given.size : 40), given.bytes);
        }
        if (call->given[parameter] != NULL) {
            return value_raise(call->room, "%s() got multiple values for argument '%s'", name,
                               builtin->parameters[parameter]);
        }
        call->given[parameter] = &arguments->values[placed + i];
    }
    for (uint32_t i = 0; i < builtin->required; i++) {
        if (call->given[i] == NULL) {
            return value_raise(call->room, "%s() misses an argument", name);
        }
    }
    return true;
}

bool builtin_run(const struct builtin *builtin, struct value_room *room,
                 const struct value *subject, const struct call_arguments *arguments,
                 struct value *out)
{
    ASSERT_SLOW(out != subject);
    struct builtin_call call = {
        .room = room,
        .builtin = builtin,
        .subject = subject,
        .arguments = arguments,
        .out = out,
    };
    if ((builtin->traits & REFUSES_MARKUP) != 0 && subject->kind == VALUE_STRING &&
        subject->markup) {
        return value_raise(room,
                           "%s() of a string marked as safe would escape its arguments; not "
                           "implemented",
                           (const char *)builtin->name.bytes);
    }
    bool is_bound = (builtin->traits & TAKES_ANY) != 0 ||
                    (arguments->count == 0 && builtin->required == 0) || builtin_bind(&call);
    bool is_good = is_bound && builtin->run(&call);
    if (!is_good) {
        *out = value_none();
    }
    return is_good;
}

int64_t call_integer(const struct builtin_call *call, uint32_t parameter, int64_t otherwise)
{
    ASSERT(parameter < call_parameter_max);
    const struct value *argument = call->given[parameter];
    if (argument != NULL && !value_is_whole(argument)) {
        (void)value_raise(call->room, "'%s' object cannot be interpreted as an integer",
                          value_type_name(argument));
        return otherwise;
    }
    return argument != NULL ? value_whole(argument) : otherwise;
}

struct slice argument_string(struct value_room *room, const struct value *argument)
{
    if (argument->kind != VALUE_STRING) {
        (void)value_raise(room, "must be str, not %s", value_type_name(argument));
        return slice_str("");
    }
    return argument->string;
}

struct slice call_string(const struct builtin_call *call, uint32_t parameter, const char *otherwise)
{
    ASSERT(parameter < call_parameter_max);
    const struct value *argument = call->given[parameter];
    return argument != NULL ? argument_string(call->room, argument) : slice_str(otherwise);
}

bool call_is_true(const struct builtin_call *call, uint32_t parameter)
{
    ASSERT(parameter < call_parameter_max);
    return call->given[parameter] != NULL && value_is_true(call->given[parameter]);
}

static bool argument_is_given(const struct value *argument)
{
    return argument != NULL && argument->kind != VALUE_NONE;
}

bool call_has(const struct builtin_call *call, uint32_t parameter)
{
    ASSERT(parameter < call_parameter_max);
    return argument_is_given(call->given[parameter]);
}

const struct value *call_named(const struct call_arguments *arguments, struct slice name)
{
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        if (slice_equal(arguments->names[i], name)) {
            return &arguments->values[positional_count(arguments) + i];
        }
    }
    return NULL;
}

static bool is_digits(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') {
            return false;
        }
    }
    return text.size > 0;
}

// Methods are refused: a bound one would take from the arena, where filters are writing.
static bool allow_attribute(struct value_room *room, const struct value *item, struct slice name)
{
    if (item->kind == VALUE_DICT && value_dict_get(item->dict, name) != NULL) {
        return true;
    }
    if (slice_starts_with(name, "_") || item->kind == VALUE_CALLABLE ||
        builtin_method(item->kind, name) != NULL) {
        return value_raise(room, "attribute '%.*s' of '%s' is not implemented",
                           (int)(name.size < 40 ? name.size : 40), name.bytes,
                           value_type_name(item));
    }
    return true;
}

// item[part], where a part in digits is a number.
static struct value find_part(struct value_room *room, const struct value *item, struct value part)
{
    uint64_t index = 0;
    if (part.kind == VALUE_STRING && is_digits(part.string)) {
        // A number beyond 64 bits is behind every end.
        bool is_read = slice_parse_u64(part.string, &index) && index < INT64_MAX;
        part = value_int(is_read ? (int64_t)index : INT64_MAX);
    } else if (part.kind == VALUE_STRING && !allow_attribute(room, item, part.string)) {
        return value_none();
    }
    struct value scratch;
    return *member_item(room, item, &part, &scratch);
}

struct value builtin_attribute(struct value_room *room, const struct value *item,
                               const struct value *attribute, const struct value *otherwise)
{
    struct value found = *item;
    bool more = value_step(room, 1) && argument_is_given(attribute);
    bool is_path = more && attribute->kind == VALUE_STRING;
    struct slice rest = is_path ? attribute->string : slice_of(NULL, 0);
    while (more && room->status == STATUS_OK) {
        size_t dot = is_path ? place_of(rest, slice_str("."), false) : PLACE_NONE;
        more = dot != PLACE_NONE;
        struct value part = *attribute;
        part.string = !is_path ? part.string : more ? slice_of(rest.bytes, dot) : rest;
        rest = more ? string_after(rest, dot + 1) : rest;
        found = find_part(room, &found, part);
        if (found.kind == VALUE_UNDEFINED && argument_is_given(otherwise)) {
            found = *otherwise;
        }
    }
    return found;
}
