/*!
 * \file plan/parse_type.h
 * \brief The type of a tensor in a document.
 */
#ifndef TVM_HETERO_PLAN_PARSE_TYPE_H_
#define TVM_HETERO_PLAN_PARSE_TYPE_H_

#include <dlpack/dlpack.h>

#include "support/json_object.h"

namespace tvm_hetero {

/*! \brief The type of a row's "dtype"; throws ValueError where that is none. */
DLDataType ParseType(JsonObject& row);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_PARSE_TYPE_H_
