// SPDX-License-Identifier: Apache-2.0

#include "template/lexer.h"

#include "base/base.h"
#include "base/utf8.h"
#include "template/value/value_text.h"

struct lexer lexer_open(struct slice source)
{
    // Adding nothing to NULL is undefined.
    const uint8_t *end = source.size > 0 ? source.bytes + source.size : source.bytes;
    return (struct lexer){.at = source.bytes, .end = end, .line = 1, .line_starting = true};
}

static struct token lexer_fail(struct lexer *lexer, enum status status, const char *error)
{
    ASSERT(status != STATUS_OK && error != NULL);
    if (lexer->error == NULL) {
        lexer->status = status;
        lexer->error = error;
    }
    lexer->at = lexer->end;
    return (struct token){.kind = TOKEN_FAILED, .line = lexer->line};
}

static const uint8_t *lexer_skip_space(const uint8_t *at, const uint8_t *end)
{
    return at + value_text_space_before(slice_of(at, (size_t)(end - at)));
}

static bool is_at(const uint8_t *at, const uint8_t *end, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(end - at) >= size && memcmp(at, text, size) == 0;
}

// Moves to `to` and counts the lines passed.
static void lexer_advance(struct lexer *lexer, const uint8_t *to)
{
    ASSERT(to >= lexer->at && to <= lexer->end);
    for (const uint8_t *at = lexer->at; at < to; at++) {
        lexer->line += *at == '\n';
    }
    lexer->line_starting = to > lexer->at && to[-1] == '\n';
    lexer->at = to;
}

// The token up to `end`, which is passed.
static struct token take_token(struct lexer *lexer, enum token_kind kind, const uint8_t *end)
{
    struct token token = {.kind = kind, .line = lexer->line};
    token.text = slice_of(lexer->at, (size_t)(end - lexer->at));
    lexer_advance(lexer, end);
    return token;
}

// The end of a tag that closes with `close` (as "%}"), from its sign on; NULL if that is not here.
// With `trims`, for blocks and comments, it includes a newline after it.
static const uint8_t *tag_end(const uint8_t *at, const uint8_t *end, const char *close, bool trims)
{
    if (at < end && *at == '-' && is_at(at + 1, end, close)) {
        return lexer_skip_space(at + 3, end);
    }
    if (trims && at < end && *at == '+' && is_at(at + 1, end, close)) {
        return at + 3;
    }
    if (!is_at(at, end, close)) {
        return NULL;
    }
    at += 2;
    return trims && at < end && *at == '\n' ? at + 1 : at;
}

// The text before a tag, stripped as its sign asks for.
static struct slice stripped(const struct lexer *lexer, const uint8_t *tag, bool is_print)
{
    ASSERT(lexer->end - tag >= 2);
    const uint8_t *begin = lexer->at;
    const uint8_t *sign = tag + 2;
    const uint8_t *end = tag;

    if (sign < lexer->end && *sign == '-') {
        end -= value_text_space_after(slice_of(begin, (size_t)(tag - begin)));
    } else if (!is_print && !(sign < lexer->end && *sign == '+')) {
        const uint8_t *line = tag;
        while (line > begin && line[-1] != '\n') {
            line--;
        }
        bool at_line_start = line > begin || lexer->line_starting;
        if (at_line_start && lexer_skip_space(line, tag) == tag) {
            end = line;
        }
    }
    return slice_of(begin, (size_t)(end - begin));
}

static const uint8_t *after_sign(const uint8_t *at, const uint8_t *end)
{
    return at < end && (*at == '-' || *at == '+') ? at + 1 : at;
}

// The end of {% raw %} or {% endraw %}; NULL if `tag` is another tag.
static const uint8_t *raw_tag_end(const uint8_t *tag, const uint8_t *end, const char *word)
{
    const uint8_t *at = lexer_skip_space(after_sign(tag + 2, end), end);
    if (!is_at(at, end, word)) {
        return NULL;
    }
    bool trims = *word == 'e';
    return tag_end(lexer_skip_space(at + strlen(word), end), end, "%}", trims);
}

static const uint8_t *find_tag(const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 2; at++) {
        at = memchr(at, '{', (size_t)(end - at - 1));
        if (at == NULL) {
            return NULL;
        }
        if (at[1] == '{' || at[1] == '%' || at[1] == '#') {
            return at;
        }
    }
    return NULL;
}

// From after "{#" to after the end of the comment, or NULL.
static const uint8_t *comment_end(const uint8_t *at, const uint8_t *end)
{
    at = after_sign(at, end);
    if (at == end) {
        return end; // Jinja lets it pass when nothing at all follows
    }
    for (; at < end; at++) {
        const uint8_t *after = tag_end(at, end, "#}", true);
        if (after != NULL) {
            return after;
        }
    }
    return NULL;
}

// Passes the start of a tag, or a whole comment, and notes the next state.
static void enter_tag(struct lexer *lexer, const uint8_t *tag)
{
    ASSERT(tag >= lexer->at && lexer->end - tag >= 2);
    const uint8_t *raw = tag[1] == '%' ? raw_tag_end(tag, lexer->end, "raw") : NULL;

    lexer_advance(lexer, tag);
    if (raw != NULL) {
        lexer->state = LEXER_RAW;
        lexer_advance(lexer, raw);
    } else if (tag[1] == '#') {
        const uint8_t *end = comment_end(tag + 2, lexer->end);
        if (end == NULL) {
            (void)lexer_fail(lexer, STATUS_MALFORMED, "a comment has no end");
            return;
        }
        lexer_advance(lexer, end);
    } else {
        bool is_print = tag[1] == '{';
        lexer->state = is_print ? LEXER_PRINT : LEXER_TAG;
        lexer->begin = take_token(lexer, is_print ? TOKEN_PRINT_BEGIN : TOKEN_TAG_BEGIN, tag + 2);
        lexer_advance(lexer, after_sign(tag + 2, lexer->end));
    }
}

// The next piece of text, which may be empty.
static struct token next_text(struct lexer *lexer)
{
    const uint8_t *tag = find_tag(lexer->at, lexer->end);
    if (tag == NULL) {
        return take_token(lexer, TOKEN_DATA, lexer->end);
    }
    struct token token = {.kind = TOKEN_DATA, .line = lexer->line};
    token.text = stripped(lexer, tag, tag[1] == '{');
    enter_tag(lexer, tag);
    return token;
}

static struct token next_raw(struct lexer *lexer)
{
    ASSERT(lexer->state == LEXER_RAW);
    struct token token = {.kind = TOKEN_DATA, .line = lexer->line};
    for (const uint8_t *tag = lexer->at; lexer->end - tag >= 2; tag++) {
        const uint8_t *end =
            is_at(tag, lexer->end, "{%") ? raw_tag_end(tag, lexer->end, "endraw") : NULL;
        if (end != NULL) {
            token.text = stripped(lexer, tag, false);
            lexer->state = LEXER_TEXT;
            lexer_advance(lexer, end);
            return token;
        }
    }
    return lexer_fail(lexer, STATUS_MALFORMED, "raw has no endraw");
}

static bool is_lexer_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_name_byte(uint8_t byte)
{
    return is_lexer_digit(byte) || byte == '_' ||
           (ascii_lower(byte) >= 'a' && ascii_lower(byte) <= 'z');
}

// Digits of a base with single underscores between them.
static const uint8_t *lexer_read_digits(const uint8_t *at, const uint8_t *end, int base)
{
    ASSERT(base >= 1 && base <= 16);
    const uint8_t *begin = at;
    while (at < end) {
        const uint8_t *digit = at > begin && *at == '_' ? at + 1 : at;
        int value = digit < end ? ascii_hex_value(*digit) : -1;
        if (value < 0 || value >= base) {
            break;
        }
        at = digit + 1;
    }
    return at;
}

// The end of .5, e5 or .5E-5; NULL: the number is whole.
static const uint8_t *read_fraction(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *after = NULL;
    if (end - at >= 2 && *at == '.' && is_lexer_digit(at[1])) {
        at = lexer_read_digits(at + 1, end, 10);
        after = at;
    }
    if (end - at >= 2 && ascii_lower(*at) == 'e') {
        const uint8_t *exponent = at + 1;
        exponent += *exponent == '+' || *exponent == '-';
        if (exponent < end && is_lexer_digit(*exponent)) {
            return lexer_read_digits(exponent, end, 10);
        }
    }
    return after;
}

static const uint8_t *lexer_read_integer(const uint8_t *at, const uint8_t *end)
{
    static const struct {
        uint8_t letter;
        int base;
    } prefixes[] = {{'b', 2}, {'o', 8}, {'x', 16}};

    if (*at != '0') {
        return lexer_read_digits(at, end, 10);
    }
    for (size_t i = 0; i < ARRAY_COUNT(prefixes); i++) {
        if (end - at < 3 || ascii_lower(at[1]) != prefixes[i].letter) {
            continue;
        }
        const uint8_t *digits = at + 2 + (at[2] == '_');
        const uint8_t *after = lexer_read_digits(digits, end, prefixes[i].base);
        if (after > digits) {
            return after;
        }
    }
    return lexer_read_digits(at, end, 1); // only zeros
}

static struct token next_number(struct lexer *lexer)
{
    ASSERT(is_lexer_digit(*lexer->at));
    // After a dot it is an index, as in x.0.1; a tag's first byte is always before it.
    bool is_index = lexer->at[-1] == '.';
    const uint8_t *digits_end = lexer_read_digits(lexer->at, lexer->end, 10);
    const uint8_t *end = is_index ? NULL : read_fraction(digits_end, lexer->end);
    return end != NULL
               ? take_token(lexer, TOKEN_FLOAT, end)
               : take_token(lexer, TOKEN_INTEGER, lexer_read_integer(lexer->at, lexer->end));
}

static struct token next_string(struct lexer *lexer)
{
    ASSERT(*lexer->at == '"' || *lexer->at == '\'');
    uint8_t quote = *lexer->at;
    for (const uint8_t *at = lexer->at + 1; at < lexer->end; at++) {
        if (*at == quote) {
            struct token token = take_token(lexer, TOKEN_STRING, at + 1);
            token.text = slice_of(token.text.bytes + 1, token.text.size - 2);
            return token;
        }
        if (*at == '\\') {
            at++;
        }
    }
    return lexer_fail(lexer, STATUS_MALFORMED, "a string has no end");
}

static const struct {
    const char *text;
    enum token_kind kind;
} operators[] = {
#define X(name, text) {text, TOKEN_##name},
    TOKEN_OPERATOR_MAP(X)
#undef X
};

static void match_brackets(struct lexer *lexer, uint8_t byte)
{
    static const char brackets[] = "()[]{}";
    const char *found = strchr(brackets, byte);
    ASSERT(byte != '\0');
    if (found == NULL) {
        return;
    }
    if ((found - brackets) % 2 == 0) {
        if (lexer->bracket_count == lexer_bracket_max) {
            (void)lexer_fail(lexer, STATUS_TOO_LARGE, "brackets are nested too deep");
            return;
        }
        lexer->brackets[lexer->bracket_count++] = (uint8_t)found[1];
        return;
    }
    if (lexer->bracket_count == 0 || lexer->brackets[lexer->bracket_count - 1] != byte) {
        (void)lexer_fail(lexer, STATUS_MALFORMED, "a closing bracket does not match");
        return;
    }
    lexer->bracket_count--;
}

static struct token next_operator(struct lexer *lexer)
{
    for (size_t i = 0; i < ARRAY_COUNT(operators); i++) {
        if (is_at(lexer->at, lexer->end, operators[i].text)) {
            const uint8_t *end = lexer->at + strlen(operators[i].text);
            match_brackets(lexer, *lexer->at);
            return lexer->error == NULL ? take_token(lexer, operators[i].kind, end)
                                        : lexer_next(lexer);
        }
    }
    return lexer_fail(lexer, STATUS_MALFORMED, "an unexpected character inside a tag");
}

static struct token next_in_tag(struct lexer *lexer)
{
    lexer_advance(lexer, lexer_skip_space(lexer->at, lexer->end));
    if (lexer->at == lexer->end) {
        return take_token(lexer, TOKEN_END, lexer->end);
    }
    bool is_print = lexer->state == LEXER_PRINT;
    const uint8_t *end = lexer->bracket_count > 0
                             ? NULL
                             : tag_end(lexer->at, lexer->end, is_print ? "}}" : "%}", !is_print);
    if (end != NULL) {
        lexer->state = LEXER_TEXT;
        return take_token(lexer, is_print ? TOKEN_PRINT_END : TOKEN_TAG_END, end);
    }
    if (is_lexer_digit(*lexer->at)) {
        return next_number(lexer);
    }
    if (is_name_byte(*lexer->at)) {
        const uint8_t *at = lexer->at;
        while (at < lexer->end && is_name_byte(*at)) {
            at++;
        }
        return take_token(lexer, TOKEN_NAME, at);
    }
    if (*lexer->at == '"' || *lexer->at == '\'') {
        return next_string(lexer);
    }
    return next_operator(lexer);
}

struct token lexer_next(struct lexer *lexer)
{
    ASSERT(lexer->at <= lexer->end);
    if (lexer->error != NULL) {
        return (struct token){.kind = TOKEN_FAILED, .line = lexer->line};
    }
    if (lexer->begin.kind != TOKEN_END) {
        struct token token = lexer->begin;
        lexer->begin = (struct token){0};
        return token;
    }
    if (lexer->state == LEXER_TAG || lexer->state == LEXER_PRINT) {
        return next_in_tag(lexer);
    }
    while (lexer->at < lexer->end) {
        struct token token = lexer->state == LEXER_RAW ? next_raw(lexer) : next_text(lexer);
        if (token.text.size > 0 && lexer->error == NULL) {
            return token;
        }
        if (lexer->error != NULL || lexer->begin.kind != TOKEN_END) {
            return lexer_next(lexer);
        }
    }
    return take_token(lexer, TOKEN_END, lexer->end);
}
