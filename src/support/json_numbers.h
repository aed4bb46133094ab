/*!
 * \file support/json_numbers.h
 * \brief The numbers of a JSON array, nested as a shape says or flat, put where they belong.
 *
 * For tvm_hetero/serve/oip/native_numbers.py, which calls it through ctypes: a list of Python's
 * numbers takes several times as long to make and to convert as the text takes to read.
 *
 * What is read is what RFC 8259 calls a number, and each is rounded once to a double, as any reader
 * of JSON does, and that to the array's type. Nothing is said of what is wrong with a text: whoever
 * calls reads it again by other means, which say it.
 */
#ifndef TVM_HETERO_SUPPORT_JSON_NUMBERS_H_
#define TVM_HETERO_SUPPORT_JSON_NUMBERS_H_

#include <tvm_hetero/export.h>

#include <cstdint>

extern "C" {

/*! \brief A text from its first bracket to its last, and the array that it is to fill. */
struct TvmHeteroJsonArray {
  const char* text;
  int64_t size;         /*!< bytes of the text */
  void* numbers;        /*!< [count] */
  int64_t count;        /*!< more than none */
  const int64_t* rows;  /*!< [inner] numbers in an array of the text, from the innermost outwards */
  int32_t inner;        /*!< levels of arrays inside of the outermost; 0: it is flat */
  char kind;            /*!< 'f', 'i', 'u', as NumPy's */
  int32_t bytes;        /*!< of a number */
};

/*!
 * \brief Read on until that many bytes are behind, or all.
 * \param done numbers that were read before.
 * \param at where in the text to go on; set to where it ended: `size` if the array is complete.
 * \return Numbers that are read now, all together; -1 if the text is not such an array, or has a
 * number that the type cannot hold, or so much space between two that reading it would take long.
 */
TVM_HETERO_API int64_t tvm_hetero_read_json_numbers(const TvmHeteroJsonArray* array, int64_t done,
                                                    int64_t most, int64_t* at);

}  // extern "C"

#endif  // TVM_HETERO_SUPPORT_JSON_NUMBERS_H_
