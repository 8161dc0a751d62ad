// SPDX-License-Identifier: Apache-2.0
//
// Bytes that no token begins with are passed over many at a time.  From one that does, a tree of
// all tokens is followed byte by byte, so a search at one place takes no longer than the longest
// token.
//
// The children of a node lie behind each other, in the order of their bytes:
//
//     "<a>", "<b", "<b>"      0 root   1 '<'   2 'a'  3 'b' (a token)   4 '>'   5 '>'

#include "tokenizer/added.h"

#include "base/base.h"
#include "base/utf8.h"
#include "tokenizer/split/char_class.h"

#include <stdlib.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

enum {
    no_token = UINT32_MAX,
    vector_size = 16,
    few_firsts = 8, // up to so many first bytes are searched for 16 bytes at a time
};

struct added_node {
    uint32_t first_child;
    uint32_t token; // that ends here, or no_token
    uint16_t child_count;
    uint8_t byte;
};

struct added {
    size_t memory;
    uint32_t first_count;
    uint32_t by_first[256];                  // nodes; 0: no token begins so
    uint8_t firsts[few_firsts][vector_size]; // each of them, if they are few
    struct added_token *tokens;
    struct added_node *nodes;
};

int added_compare_texts(const void *a, const void *b)
{
    struct slice left = ((const struct added_token *)a)->text;
    struct slice right = ((const struct added_token *)b)->text;
    size_t common = left.size < right.size ? left.size : right.size;
    int order = memcmp(left.bytes, right.bytes, common);
    return order != 0 ? order : (left.size > right.size) - (left.size < right.size);
}

// The root, and a node for each byte that a text does not share with the text before it.
static size_t count_added_nodes(const struct added_token *sorted, uint32_t count)
{
    size_t nodes = 1;
    for (uint32_t i = 0; i < count; i++) {
        size_t same = 0;
        while (i > 0 && same < sorted[i - 1].text.size &&
               sorted[i - 1].text.bytes[same] == sorted[i].text.bytes[same]) {
            same++;
        }
        nodes += sorted[i].text.size - same;
    }
    return nodes;
}

// The texts below a node.
struct added_range {
    uint32_t begin;
    uint32_t end;
    uint32_t depth;
};

static void build_added_tree(struct added *added, const struct added_token *sorted,
                             struct added_range *ranges, size_t node_count)
{
    uint32_t next = 1;
    added->nodes[0] = (struct added_node){0};
    for (uint32_t i = 0; i < node_count; i++) {
        struct added_range range = ranges[i];
        struct added_node *node = &added->nodes[i];
        node->first_child = next;
        node->token = no_token;
        if (range.begin < range.end && sorted[range.begin].text.size == range.depth) {
            node->token = range.begin++;
        }
        while (range.begin < range.end) {
            uint8_t byte = sorted[range.begin].text.bytes[range.depth];
            uint32_t end = range.begin;
            while (end < range.end && sorted[end].text.bytes[range.depth] == byte) {
                end++;
            }
            ranges[next] = (struct added_range){range.begin, end, range.depth + 1};
            added->nodes[next++] = (struct added_node){.byte = byte};
            node->child_count++;
            range.begin = end;
        }
    }
    ASSERT(next == node_count); // no two texts are equal
}

static void note_firsts(struct added *added)
{
    const struct added_node *root = &added->nodes[0];
    added->first_count = root->child_count;
    for (uint32_t i = 0; i < root->child_count; i++) {
        uint8_t byte = added->nodes[root->first_child + i].byte;
        added->by_first[byte] = root->first_child + i;
        if (i < few_firsts) {
            memset(added->firsts[i], byte, vector_size);
        }
    }
}

struct added *added_create(const struct added_token *tokens, uint32_t count)
{
    struct added *added = NULL;
    struct added_range *ranges = NULL;
    struct added_token *sorted = calloc((size_t)count + 1, sizeof(*sorted));
    if (sorted == NULL) {
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(tokens[i].text.size > 0);
        sorted[i] = tokens[i];
    }
    qsort(sorted, count, sizeof(*sorted), added_compare_texts);
    size_t node_count = count_added_nodes(sorted, count);
    size_t memory =
        sizeof(*added) + node_count * sizeof(struct added_node) + count * sizeof(*sorted);
    ranges = calloc(node_count, sizeof(*ranges));
    if (ranges == NULL || node_count > UINT32_MAX || (added = calloc(1, memory)) == NULL) {
        goto out;
    }
    added->memory = memory;
    added->tokens = (struct added_token *)(added + 1);
    added->nodes = (struct added_node *)(added->tokens + count);
    ranges[0].end = count;
    build_added_tree(added, sorted, ranges, node_count);
    note_firsts(added);
    for (uint32_t i = 0; i < count; i++) {
        added->tokens[i] = sorted[i];
        added->tokens[i].text = (struct slice){0}; // the caller's
    }

out:
    free(sorted);
    free(ranges);
    return added;
}

void added_destroy(struct added **added)
{
    free(*added);
    *added = NULL;
}

size_t added_memory(const struct added *added)
{
    return added->memory;
}

// The next byte that a token begins with, or the end of the text.
static size_t find_first_byte(const struct added *added, struct slice text, size_t at)
{
    if (added->first_count == 0 || at == text.size) {
        return text.size;
    }
    if (added->by_first[text.bytes[at]] != 0) {
        return at;
    }
#ifdef __SSE2__
    while (added->first_count <= few_firsts && text.size - at >= vector_size) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(text.bytes + at));
        __m128i found = _mm_setzero_si128();
        for (uint32_t i = 0; i < added->first_count; i++) {
            __m128i wanted = _mm_loadu_si128((const __m128i *)(const void *)added->firsts[i]);
            found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, wanted));
        }
        unsigned mask = (unsigned)_mm_movemask_epi8(found);
        if (mask != 0) {
            return at + (unsigned)__builtin_ctz(mask);
        }
        at += vector_size;
    }
#endif
    while (at < text.size && added->by_first[text.bytes[at]] == 0) {
        at++;
    }
    return at;
}

// NULL when there is none.
static const struct added_node *find_child(const struct added *added, const struct added_node *node,
                                           uint8_t byte)
{
    const struct added_node *children = &added->nodes[node->first_child];
    uint32_t low = 0;
    uint32_t high = node->child_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (children[middle].byte < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < node->child_count && children[low].byte == byte ? &children[low] : NULL;
}

// The longest token that begins at `at`, or no_token; *end is its end.
static uint32_t longest_at(const struct added *added, struct slice text, size_t at, size_t *end)
{
    uint32_t token = no_token;
    ASSERT_SLOW(added->by_first[text.bytes[at]] != 0);
    const struct added_node *node = &added->nodes[added->by_first[text.bytes[at]]];
    while (node != NULL) {
        at++;
        if (node->token != no_token) {
            token = node->token;
            *end = at;
        }
        node = at < text.size ? find_child(added, node, text.bytes[at]) : NULL;
    }
    return token;
}

static uint16_t class_before(struct slice text, size_t at)
{
    unsigned size;
    return char_class(utf8_read(utf8_back(text.bytes, text.bytes + at), &size));
}

// Whether neither side of a match is a letter, a digit or the like.
static bool stands_alone(struct slice text, size_t start, size_t stop)
{
    unsigned size;
    return (start == 0 || (class_before(text, start) & CHAR_RUST_WORD) == 0) &&
           (stop == text.size ||
            (char_class(utf8_read(text.bytes + stop, &size)) & CHAR_RUST_WORD) == 0);
}

// Where the white space before `at` begins; `floor` if that is later, even than `at`.
static size_t white_begin_before(struct slice text, size_t floor, size_t at)
{
    while (at > floor && (class_before(text, at) & CHAR_WS) != 0) {
        at = (size_t)(utf8_back(text.bytes, text.bytes + at) - text.bytes);
    }
    return at > floor ? at : floor;
}

static size_t white_end_after(struct slice text, size_t at)
{
    while (at < text.size) {
        unsigned size;
        if ((char_class(utf8_read(text.bytes + at, &size)) & CHAR_WS) == 0) {
            break;
        }
        at += size;
    }
    return at;
}

struct added_walk added_begin(const struct added *added, struct slice text)
{
    return (struct added_walk){.added = added, .text = text};
}

// Widens a match over white space as its flags say.  False when the match vanishes: it was white
// space that the last match had taken.
static bool widen_match(struct added_walk *walk, const struct added_token *token, size_t start,
                        size_t stop, struct added_match *out)
{
    size_t last_end = walk->end;
    if (token->lstrip) {
        start = white_begin_before(walk->text, last_end, start);
    }
    // White space that the last match took is not scanned again.
    if (token->rstrip) {
        stop = stop < last_end ? last_end : white_end_after(walk->text, stop);
    }
    size_t gap = start > last_end ? start - last_end : 0;
    *out =
        (struct added_match){.before = slice_of(walk->text.bytes + last_end, gap), .id = token->id};
    ASSERT(stop <= walk->text.size);
    walk->end = stop;
    return start < stop;
}

bool added_next(struct added_walk *walk, struct added_match *out)
{
    const struct added *added = walk->added;
    struct slice text = walk->text;
    size_t at = walk->search;
    while ((at = find_first_byte(added, text, at)) < text.size) {
        size_t start = at;
        size_t stop = at + 1;
        uint32_t index = longest_at(added, text, start, &stop);
        at = stop; // a rejected match is consumed, too
        if (index == no_token) {
            continue;
        }
        const struct added_token *token = &added->tokens[index];
        if (!token->single_word || stands_alone(text, start, stop)) {
            walk->search = stop;
            if (widen_match(walk, token, start, stop, out)) {
                return true;
            }
        }
    }
    walk->search = text.size;
    ASSERT(walk->end <= text.size);
    out->before = slice_of(text.bytes + walk->end, text.size - walk->end);
    return false;
}
