// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Jinja 3.1.6 with Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(int_reads_the_numbers_that_python_reads)
{
    static const struct builtin_row rows[] = {
        {"int", "\"42\"", NULL, NULL, "42"},
        {"int", "\" -7\\n\"", NULL, NULL, "-7"},
        {"int", "\"4_2\"", NULL, NULL, "42"},
        {"int", "\"4__2\"", NULL, NULL, "0"},
        {"int", "\"42.9\"", NULL, NULL, "42"},
        {"int", "\"1e3\"", NULL, NULL, "1000"},
        {"int", "\"x\"", NULL, NULL, "0"},
        {"int", "\"x\"", "[-1]", NULL, "-1"},
        {"int", "\"\"", NULL, "{\"default\": null}", "None"},
        {"int", "3.9", NULL, NULL, "3"},
        {"int", "-3.9", NULL, NULL, "-3"},
        {"int", "true", NULL, NULL, "1"},
        {"int", "null", NULL, NULL, "0"},
        {"int", "[1]", NULL, NULL, "0"},
        {"int", "\"123456789012345678901234567890\"", NULL, NULL, "123456789012345678901234567890"},
        {"int", "\"-9223372036854775808\"", NULL, NULL, "-9223372036854775808"},
        {"int", "1e+20", NULL, NULL, "100000000000000000000"},
        {"int", "\"inf\"", NULL, NULL, "0"},
        {"int", "\"\\u001c9\"", NULL, NULL, "0"},
        {"int", NULL, NULL, NULL, "'x' is undefined"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(int_reads_bases_2_to_36)
{
    static const struct builtin_row rows[] = {
        {"int", "\"ff\"", NULL, "{\"base\": 16}", "255"},
        {"int", "\"0xff\"", "[0, 16]", NULL, "255"},
        {"int", "\"0b11\"", NULL, "{\"base\": 2}", "3"},
        {"int", "\"0o17\"", NULL, "{\"base\": 0}", "15"},
        {"int", "\"017\"", NULL, "{\"base\": 0}", "17"},
        {"int", "\"00\"", NULL, "{\"base\": 0}", "0"},
        {"int", "\"z\"", NULL, "{\"base\": 36}", "35"},
        {"int", "\"9\"", NULL, "{\"base\": 8}", "9"},
        {"int", "\"-0x_f\"", NULL, "{\"base\": 16}", "-15"},
        {"int", "\"1\"", NULL, "{\"base\": 1}", "1"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(float_reads_the_numbers_that_python_reads)
{
    static const struct builtin_row rows[] = {
        {"float", "\"1.5\"", NULL, NULL, "1.5"},
        {"float", "\" 1e3 \"", NULL, NULL, "1000.0"},
        {"float", "\"1_0.5\"", NULL, NULL, "10.5"},
        {"float", "\"1_e5\"", NULL, NULL, "0.0"},
        {"float", "\"0x1p3\"", NULL, NULL, "0.0"},
        {"float", "\"nan\"", NULL, NULL, "nan"},
        {"float", "\"-Infinity\"", NULL, NULL, "-inf"},
        {"float", "\"x\"", "[7]", NULL, "7"},
        {"float", "3", NULL, NULL, "3.0"},
        {"float", "true", NULL, NULL, "1.0"},
        {"float", "null", NULL, NULL, "0.0"},
        {"float", "100000000000000000000", NULL, NULL, "1e+20"},
        {"float",
         "10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "000000000000000000000000000000000000000000000",
         NULL, NULL, "int too large to convert to float"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(round_rounds_the_exact_decimal)
{
    static const struct builtin_row rows[] = {
        {"round", "2.5", NULL, NULL, "2.0"},
        {"round", "3.5", NULL, NULL, "4.0"},
        {"round", "42.55", "[1]", NULL, "42.5"},
        {"round", "2.675", "[2]", NULL, "2.67"},
        {"round", "42", "[1]", NULL, "42"},
        {"round", "true", NULL, NULL, "1"},
        {"round", "42.55", "[1, \"floor\"]", NULL, "42.5"},
        {"round", "42.51", "[1, \"ceil\"]", NULL, "42.6"},
        {"round", "-0.4", "[0, \"ceil\"]", NULL, "0.0"},
        {"round", "7", "[0, \"floor\"]", NULL, "7.0"},
        {"round", "1e+300", "[2]", NULL, "1e+300"},
        {"round", "1.5", "[0, \"up\"]", NULL, "method must be common, ceil or floor"},
        {"round", "\"1\"", NULL, NULL, "type str doesn't define __round__ method"},
        {"round", "155", "[-1]", NULL, "round to -1 digits is not implemented"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(sums_and_absolute_values_keep_their_kind)
{
    static const struct builtin_row rows[] = {
        {"sum", "[1, 2, true]", NULL, NULL, "4"},
        {"sum", "[1, 0.5]", NULL, NULL, "1.5"},
        {"sum", "[]", NULL, NULL, "0"},
        {"sum", "[{\"a\": 1}, {\"a\": 2}]", NULL, "{\"attribute\": \"a\"}", "3"},
        {"sum", "[1]", NULL, "{\"start\": 10}", "11"},
        {"sum", "[\"a\"]", NULL, NULL, "unsupported operand type(s) for +: 'int' and 'str'"},
        {"abs", "-3", NULL, NULL, "3"},
        {"abs", "-3.5", NULL, NULL, "3.5"},
        {"abs", "-100000000000000000000", NULL, NULL, "100000000000000000000"},
        {"abs", "\"x\"", NULL, NULL, "bad operand type for abs(): 'str'"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(results_beyond_64_bits_are_refused)
{
    static const struct builtin_row rows[] = {
        {"abs", "-9223372036854775808", NULL, NULL, "an integer is too large"},
        {"sum", "[9223372036854775807, 1]", NULL, NULL, "an integer is too large"},
        {"sum", "[1e100, 1.0, -1e100]", NULL, NULL,
         "this sum of floats depends on the version of Python"},
        {"int", "\"\xd9\xa3\"", NULL, NULL,
         "numbers in digits other than 0 to 9 are not implemented"},
        {"int", "1e999", NULL, NULL, "cannot convert float infinity to integer"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}
