// SPDX-License-Identifier: Apache-2.0
//
// First the forms one by one; then random documents, written and read by another library beside
// us.

#include "kvevent/msgpack.h"

#include "base/rng.h"
#include "test.h"

#include <msgpack.h>
#include <stdlib.h>

static size_t bytes_of(const char *hex, uint8_t *out)
{
    size_t size = 0;
    for (; hex[0] != '\0'; hex += hex[0] == ' ') {
        out[size++] =
            (uint8_t)(ascii_hex_value((uint8_t)hex[0]) << 4 | ascii_hex_value((uint8_t)hex[1]));
        hex += 2;
    }
    return size;
}

static const struct {
    const char *hex;
    uint64_t number;
    enum msgpack_kind kind;
    uint32_t size; // of its bytes
} forms[] = {
    {"c0", 0, MSGPACK_NIL, 0},
    {"c2", 0, MSGPACK_BOOL, 0},
    {"c3", 1, MSGPACK_BOOL, 0},
    {"00", 0, MSGPACK_UNSIGNED, 0},
    {"7f", 127, MSGPACK_UNSIGNED, 0},
    {"e0", (uint64_t)-32, MSGPACK_NEGATIVE, 0},
    {"ff", (uint64_t)-1, MSGPACK_NEGATIVE, 0},
    {"cc 80", 128, MSGPACK_UNSIGNED, 0},
    {"cd ff fe", 0xfffe, MSGPACK_UNSIGNED, 0},
    {"ce ff ff ff fe", 0xfffffffe, MSGPACK_UNSIGNED, 0},
    {"cf ff ff ff ff ff ff ff fe", 0xfffffffffffffffe, MSGPACK_UNSIGNED, 0},
    {"d0 7f", 127, MSGPACK_UNSIGNED, 0},
    {"d0 80", (uint64_t)-128, MSGPACK_NEGATIVE, 0},
    {"d1 80 00", (uint64_t)-32768, MSGPACK_NEGATIVE, 0},
    {"d2 7f ff ff ff", INT32_MAX, MSGPACK_UNSIGNED, 0},
    {"d2 80 00 00 00", (uint64_t)INT32_MIN, MSGPACK_NEGATIVE, 0},
    {"d3 80 00 00 00 00 00 00 00", (uint64_t)INT64_MIN, MSGPACK_NEGATIVE, 0},
    {"ca 3f 80 00 00", 0x3f800000, MSGPACK_FLOAT, 0},
    {"cb 3f f0 00 00 00 00 00 00", 0x3ff0000000000000, MSGPACK_FLOAT, 0},
    {"a0", 0, MSGPACK_STRING, 0},
    {"a2 61 62", 0, MSGPACK_STRING, 2},
    {"d9 01 61", 0, MSGPACK_STRING, 1},
    {"da 00 01 61", 0, MSGPACK_STRING, 1},
    {"db 00 00 00 01 61", 0, MSGPACK_STRING, 1},
    {"c4 01 61", 0, MSGPACK_BINARY, 1},
    {"c5 00 01 61", 0, MSGPACK_BINARY, 1},
    {"c6 00 00 00 01 61", 0, MSGPACK_BINARY, 1},
    {"c7 02 05 61 62", 5, MSGPACK_EXTENSION, 2},
    {"c8 00 01 05 61", 5, MSGPACK_EXTENSION, 1},
    {"c9 00 00 00 01 05 61", 5, MSGPACK_EXTENSION, 1},
    {"d4 ff 61", 0xff, MSGPACK_EXTENSION, 1},
    {"d5 01 61 62", 1, MSGPACK_EXTENSION, 2},
    {"d6 01 61 62 63 64", 1, MSGPACK_EXTENSION, 4},
    {"d7 01 61 62 63 64 65 66 67 68", 1, MSGPACK_EXTENSION, 8},
    {"d8 01 61 62 63 64 65 66 67 68 61 62 63 64 65 66 67 68", 1, MSGPACK_EXTENSION, 16},
    {"90", 0, MSGPACK_ARRAY, 0},
    {"80", 0, MSGPACK_MAP, 0},
};

TEST(every_form_is_read_as_its_kind)
{
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        uint8_t bytes[64];
        size_t size = bytes_of(forms[i].hex, bytes);
        struct msgpack cursor = msgpack_open(slice_of(bytes, size));
        struct msgpack_value value;
        CHECK(msgpack_next(&cursor, &value));
        CHECK_EQ(value.kind, forms[i].kind);
        CHECK_EQ(value.number, forms[i].number);
        CHECK_EQ(value.bytes.size, forms[i].size);
        CHECK(forms[i].size == 0 || value.bytes.bytes == bytes + size - forms[i].size);
        CHECK(cursor.at == cursor.end && !cursor.is_broken);
    }
}

static bool is_refused(struct slice bytes)
{
    struct msgpack cursor = msgpack_open(bytes);
    struct msgpack_value value;
    return !msgpack_next(&cursor, &value) && cursor.is_broken;
}

TEST(every_form_is_refused_when_its_end_is_missing)
{
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        uint8_t bytes[64];
        size_t size = bytes_of(forms[i].hex, bytes);
        size_t less = 0;
        while (less < size && is_refused(slice_of(bytes, less))) {
            less++;
        }
        CHECK_EQ(less, size);
    }
}

TEST(counts_beyond_the_bytes_that_are_left_are_refused)
{
    static const struct {
        const char *hex;
        bool is_good;
    } cases[] = {
        {"91 c0", true},
        {"91", false},
        {"92 c0", false},
        {"81 c0 c0", true},
        {"81 c0", false},
        {"dc 00 01 c0", true},
        {"dc 00 02 c0", false},
        {"dd ff ff ff ff c0", false},
        {"de 00 01 c0 c0", true},
        {"de 00 01 c0", false},
        {"df 80 00 00 00", false},
        {"df ff ff ff ff c0 c0", false},
        {"c6 ff ff ff ff", false},
        {"c9 ff ff ff ff 01", false},
        {"db ff ff ff ff", false},
        {"c1", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint8_t bytes[64];
        struct msgpack cursor = msgpack_open(slice_of(bytes, bytes_of(cases[i].hex, bytes)));
        struct msgpack_value value = {.number = 42};
        CHECK_EQ(msgpack_next(&cursor, &value), cases[i].is_good);
        CHECK_EQ(cursor.is_broken, !cases[i].is_good);
        CHECK(cases[i].is_good || value.number == 42);
    }
}

TEST(errors_stick)
{
    static const uint8_t bytes[] = {0xc1, 1, 2, 3};
    struct msgpack cursor = msgpack_open(slice_of(bytes, sizeof(bytes)));
    struct msgpack_value value;
    uint32_t ids[3];
    uint64_t integers[3];

    for (int i = 0; i < 2; i++) {
        CHECK(!msgpack_next(&cursor, &value));
        CHECK(!msgpack_skip(&cursor, 1));
        CHECK_EQ(msgpack_ids(&cursor, ids, 3), 0);
        CHECK_EQ(msgpack_integers(&cursor, integers, 3), 0);
        CHECK_EQ(msgpack_nils(&cursor, 3), 0);
        CHECK(cursor.is_broken);
    }
}

TEST(nesting_as_deep_as_the_bytes_is_passed_over)
{
    enum { depth = 1 << 20 };
    uint8_t *bytes = malloc(depth + 1);
    ASSERT(bytes != NULL);
    memset(bytes, 0x91, depth);
    bytes[depth] = 0x05;

    struct msgpack cursor = msgpack_open(slice_of(bytes, depth + 1));
    CHECK(msgpack_skip(&cursor, 1));
    CHECK(cursor.at == cursor.end);
    cursor = msgpack_open(slice_of(bytes, depth));
    CHECK(!msgpack_skip(&cursor, 1));
    free(bytes);
}

// Each array claims all that is left, so that the claims of all of them together would be a square.
TEST(counts_never_exceed_the_bytes_left)
{
    static uint8_t bytes[5 * 4096];
    for (size_t i = 0; i < sizeof(bytes); i += 5) {
        size_t rest = sizeof(bytes) - i - 5;
        uint8_t head[5] = {0xdd, 0, 0, (uint8_t)(rest >> 8), (uint8_t)rest};
        memcpy(bytes + i, head, sizeof(head));
    }
    struct msgpack cursor = msgpack_open(slice_of(bytes, sizeof(bytes)));
    CHECK(!msgpack_skip(&cursor, 1));
    cursor = msgpack_open(slice_of(bytes, sizeof(bytes)));
    CHECK(!msgpack_skip(&cursor, UINT64_MAX));
}

TEST(runs_stop_before_a_value_of_another_kind)
{
    static const struct {
        const char *hex;
        uint32_t ids;
        uint32_t integers;
        uint32_t nils;
    } cases[] = {
        {"01 cc 80 cd 01 00 ce 00 01 00 00 cf 00 00 00 00 ff ff ff ff d0 05 c0", 6, 6, 0},
        {"01 02 ff 03 c0", 2, 4, 0},
        {"01 02 cf 00 00 00 01 00 00 00 00 03 c0", 2, 4, 0},
        {"01 02 d3 ff ff ff ff ff ff ff fe 03 c0", 2, 4, 0},
        {"01 92 01 02 03", 1, 1, 0},
        {"a1 61", 0, 0, 0},
        {"c0 c0 01", 0, 0, 2},
        {"c0 c0 c0 c0 c0 c0 c0 c0", 0, 0, 7},
        {"01 02 03 04 05 06 07 08 09", 7, 7, 0},
        {"ca 00 00 00 00", 0, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint8_t bytes[64];
        uint32_t ids[7];
        uint64_t integers[7];
        struct slice all = slice_of(bytes, bytes_of(cases[i].hex, bytes));
        struct msgpack cursor = msgpack_open(all);
        struct msgpack walker = msgpack_open(all);

        CHECK_EQ(msgpack_ids(&cursor, ids, 7), cases[i].ids);
        CHECK(msgpack_skip(&walker, cases[i].ids));
        CHECK(cursor.at == walker.at && !cursor.is_broken);

        cursor = msgpack_open(all);
        walker = msgpack_open(all);
        CHECK_EQ(msgpack_integers(&cursor, integers, 7), cases[i].integers);
        CHECK(msgpack_skip(&walker, cases[i].integers));
        CHECK(cursor.at == walker.at && !cursor.is_broken);

        cursor = msgpack_open(all);
        CHECK_EQ(msgpack_nils(&cursor, 7), cases[i].nils);
        CHECK(cursor.at == bytes + cases[i].nils);
    }
}

// Random documents.

static void pack_integer(struct rng *rng, msgpack_packer *out)
{
    uint64_t bits = rng_next(rng) >> rng_below(rng, 64);
    switch (rng_below(rng, 10)) {
    case 0:
        msgpack_pack_fix_uint8(out, (uint8_t)bits);
        break;
    case 1:
        msgpack_pack_fix_uint16(out, (uint16_t)bits);
        break;
    case 2:
        msgpack_pack_fix_uint32(out, (uint32_t)bits);
        break;
    case 3:
        msgpack_pack_fix_uint64(out, bits);
        break;
    case 4:
        msgpack_pack_fix_int8(out, (int8_t)bits);
        break;
    case 5:
        msgpack_pack_fix_int16(out, (int16_t)bits);
        break;
    case 6:
        msgpack_pack_fix_int32(out, (int32_t)bits);
        break;
    case 7:
        msgpack_pack_fix_int64(out, (int64_t)bits);
        break;
    case 8:
        msgpack_pack_int64(out, -(int64_t)(bits >> 1));
        break;
    default:
        msgpack_pack_uint64(out, bits);
        break;
    }
}

// Mostly short, sometimes of each size that has a head of its own.
static uint32_t random_size(struct rng *rng)
{
    static const uint32_t bounds[] = {4, 4, 4, 4, 40, 300, 70000};
    return rng_below(rng, bounds[rng_below(rng, rng_below(rng, 20) == 0 ? 7 : 5)]);
}

static void pack_bytes(struct rng *rng, msgpack_packer *out)
{
    static const char bytes[70000] = "some bytes";
    uint32_t size = random_size(rng);
    switch (rng_below(rng, 3)) {
    case 0:
        msgpack_pack_str_with_body(out, bytes, size);
        break;
    case 1:
        msgpack_pack_bin_with_body(out, bytes, size);
        break;
    default:
        msgpack_pack_ext_with_body(out, bytes, size, (int8_t)rng_next(rng));
        break;
    }
}

static void pack_value(struct rng *rng, msgpack_packer *out, uint32_t depth)
{
    uint32_t count = depth < 5 ? rng_below(rng, rng_below(rng, 30) == 0 ? 40 : 6) : 0;
    switch (rng_below(rng, 9)) {
    case 0:
        msgpack_pack_nil(out);
        break;
    case 1:
        rng_below(rng, 2) == 0 ? msgpack_pack_true(out) : msgpack_pack_false(out);
        break;
    case 2:
        rng_below(rng, 2) == 0 ? msgpack_pack_float(out, 1.5F) : msgpack_pack_double(out, -2.5);
        break;
    case 3:
        pack_bytes(rng, out);
        break;
    case 4:
    case 5:
        msgpack_pack_array(out, count);
        for (uint32_t i = 0; i < count; i++) {
            pack_value(rng, out, depth + 1);
        }
        break;
    case 6:
        msgpack_pack_map(out, count);
        for (uint32_t i = 0; i < 2 * count; i++) {
            pack_value(rng, out, depth + 1);
        }
        break;
    default:
        pack_integer(rng, out);
        break;
    }
}

static bool is_same(struct msgpack *cursor, const msgpack_object *object);

static bool are_same(struct msgpack *cursor, const msgpack_object *objects, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!is_same(cursor, &objects[i])) {
            return false;
        }
    }
    return true;
}

static bool is_same_float(const struct msgpack_value *value, const msgpack_object *object)
{
    double wide = object->via.f64;
    float narrow = (float)wide;
    uint32_t narrow_bits;
    uint64_t wide_bits;
    memcpy(&narrow_bits, &narrow, sizeof(narrow));
    memcpy(&wide_bits, &wide, sizeof(wide));
    return value->kind == MSGPACK_FLOAT &&
           value->number == (object->type == MSGPACK_OBJECT_FLOAT32 ? narrow_bits : wide_bits);
}

// Bodies of strings, binary and extensions are laid out alike in the union.
static bool is_same_bytes(const struct msgpack_value *value, const msgpack_object *object,
                          enum msgpack_kind kind)
{
    return value->kind == kind &&
           slice_equal(value->bytes, slice_of(object->via.bin.ptr, object->via.bin.size));
}

static bool is_same_extension(const struct msgpack_value *value, const msgpack_object *object)
{
    return value->kind == MSGPACK_EXTENSION && value->number == (uint8_t)object->via.ext.type &&
           slice_equal(value->bytes, slice_of(object->via.ext.ptr, object->via.ext.size));
}

static bool is_same_map(struct msgpack *cursor, const msgpack_object_map *map)
{
    for (uint32_t i = 0; i < map->size; i++) {
        if (!is_same(cursor, &map->ptr[i].key) || !is_same(cursor, &map->ptr[i].val)) {
            return false;
        }
    }
    return true;
}

static bool is_same(struct msgpack *cursor, const msgpack_object *object)
{
    struct msgpack_value value;
    if (!msgpack_next(cursor, &value)) {
        return false;
    }
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        return value.kind == MSGPACK_NIL;
    case MSGPACK_OBJECT_BOOLEAN:
        return value.kind == MSGPACK_BOOL && value.number == object->via.boolean;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return value.kind == MSGPACK_UNSIGNED && value.number == object->via.u64;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return value.kind == MSGPACK_NEGATIVE && (int64_t)value.number == object->via.i64;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return is_same_float(&value, object);
    case MSGPACK_OBJECT_STR:
        return is_same_bytes(&value, object, MSGPACK_STRING);
    case MSGPACK_OBJECT_BIN:
        return is_same_bytes(&value, object, MSGPACK_BINARY);
    case MSGPACK_OBJECT_EXT:
        return is_same_extension(&value, object);
    case MSGPACK_OBJECT_ARRAY:
        return value.kind == MSGPACK_ARRAY && value.number == object->via.array.size &&
               are_same(cursor, object->via.array.ptr, object->via.array.size);
    case MSGPACK_OBJECT_MAP:
        return value.kind == MSGPACK_MAP && value.number == object->via.map.size &&
               is_same_map(cursor, &object->via.map);
    }
    return false;
}

TEST(random_documents_are_read_as_another_library_reads_them)
{
    struct rng rng = {.state = 2};
    msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    for (uint32_t round = 0; round < 20000; round++) {
        msgpack_unpacked document;
        msgpack_packer packer;
        size_t used = 0;
        msgpack_sbuffer_clear(&buffer);
        msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
        pack_value(&rng, &packer, 0);

        msgpack_unpacked_init(&document);
        CHECK_EQ(msgpack_unpack_next(&document, buffer.data, buffer.size, &used),
                 MSGPACK_UNPACK_SUCCESS);
        struct msgpack cursor = msgpack_open(slice_of(buffer.data, buffer.size));
        CHECK(is_same(&cursor, &document.data));
        CHECK(cursor.at == cursor.end);
        cursor = msgpack_open(slice_of(buffer.data, buffer.size));
        CHECK(msgpack_skip(&cursor, 1));
        CHECK(cursor.at == cursor.end);
        msgpack_unpacked_destroy(&document);
    }
    msgpack_sbuffer_destroy(&buffer);
}

// Heads with counts of four bytes make the other library ask for as much memory.
static bool has_long_count(const msgpack_sbuffer *buffer)
{
    return memchr(buffer->data, 0xdd, buffer->size) != NULL ||
           memchr(buffer->data, 0xdf, buffer->size) != NULL;
}

TEST(damaged_documents_end_where_they_end_for_another_library)
{
    struct rng rng = {.state = 3};
    uint32_t good = 0;
    uint32_t bad = 0;
    msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    for (uint32_t round = 0; round < 30000; round++) {
        msgpack_unpacked document;
        msgpack_packer packer;
        size_t used = 0;
        msgpack_sbuffer_clear(&buffer);
        msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
        pack_value(&rng, &packer, 2);
        buffer.data[rng_below(&rng, (uint32_t)buffer.size)] = (char)rng_next(&rng);
        if (has_long_count(&buffer)) {
            continue;
        }
        msgpack_unpacked_init(&document);
        msgpack_unpack_return verdict =
            msgpack_unpack_next(&document, buffer.data, buffer.size, &used);
        struct msgpack cursor = msgpack_open(slice_of(buffer.data, buffer.size));
        bool is_whole = msgpack_skip(&cursor, 1);
        CHECK_EQ(is_whole, verdict == MSGPACK_UNPACK_SUCCESS);
        CHECK(!is_whole || cursor.at == (const uint8_t *)buffer.data + used);
        cursor = msgpack_open(slice_of(buffer.data, buffer.size));
        CHECK(!is_whole || is_same(&cursor, &document.data));
        good += is_whole;
        bad += !is_whole;
        msgpack_unpacked_destroy(&document);
    }
    CHECK(good > 1000 && bad > 1000);
    msgpack_sbuffer_destroy(&buffer);
}

// The same bytes one by one.
static bool are_runs(struct slice bytes, uint32_t count)
{
    uint32_t ids[100];
    uint64_t integers[100];
    struct msgpack id_cursor = msgpack_open(bytes);
    struct msgpack integer_cursor = msgpack_open(bytes);
    struct msgpack cursor = msgpack_open(bytes);
    uint32_t id_count = msgpack_ids(&id_cursor, ids, count);
    uint32_t integer_count = msgpack_integers(&integer_cursor, integers, count);

    for (uint32_t i = 0; i < integer_count; i++) {
        const uint8_t *at = cursor.at;
        struct msgpack_value value;
        if (!msgpack_next(&cursor, &value) || value.number != integers[i]) {
            return false;
        }
        bool is_id = value.kind == MSGPACK_UNSIGNED && value.number <= UINT32_MAX;
        if (i < id_count ? !is_id || ids[i] != value.number
                         : i == id_count && (is_id || id_cursor.at != at)) {
            return false;
        }
    }
    return id_count <= integer_count && integer_cursor.at == cursor.at && !integer_cursor.is_broken;
}

TEST(random_runs_are_read_as_their_values)
{
    struct rng rng = {.state = 4};
    msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t count = rng_below(&rng, 100);
        msgpack_packer packer;
        msgpack_sbuffer_clear(&buffer);
        msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
        for (uint32_t i = 0; i < count; i++) {
            if (rng_below(&rng, 200) == 0) {
                pack_value(&rng, &packer, 4);
            } else if (rng_below(&rng, 40) == 0) {
                pack_integer(&rng, &packer);
            } else {
                msgpack_pack_uint32(&packer, rng_below(&rng, 150000) >> rng_below(&rng, 18));
            }
        }
        CHECK(are_runs(slice_of(buffer.data, buffer.size), count));
    }
    msgpack_sbuffer_destroy(&buffer);
}
