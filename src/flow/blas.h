// Matrix products in row-major storage, by precision.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <cstdint>

#include "../core/lanes.h"

namespace hastings {

enum class Op { kNone, kTranspose };

inline CBLAS_TRANSPOSE to_cblas(Op op) { return op == Op::kNone ? CblasNoTrans : CblasTrans; }

inline void blas_gemm(Op op_a, Op op_b, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
                      float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, to_cblas(op_a), to_cblas(op_b), m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}
inline void blas_gemm(Op op_a, Op op_b, int m, int n, int k, const double* a, int lda, const double* b, int ldb,
                      double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, to_cblas(op_a), to_cblas(op_b), m, n, k, 1.0, a, lda, b, ldb, beta, c, ldc);
}

constexpr int64_t kThin = 4;

// C = A B + beta C, B and C with long rows, and A thin one way or the other: a sum of scaled rows.
template <class T>
void scaled_rows(Op op_a, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
                 T* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    if (beta == 0) std::fill(row, row + n, T(0));
    auto factor = [&](int64_t l) { return op_a == Op::kNone ? a[i * lda + l] : a[l * lda + i]; };
    int64_t l = 0;
    for (; l + 4 <= k; l += 4) {  // four at a time: the row is read and written less often
      const T f0 = factor(l), f1 = factor(l + 1), f2 = factor(l + 2), f3 = factor(l + 3);
      const T *b0 = b + l * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) row[j] += (f0 * b0[j] + f1 * b1[j]) + (f2 * b2[j] + f3 * b3[j]);
    }
    for (; l < k; ++l) {
      const T f = factor(l);
      const T* from = b + l * ldb;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) row[j] += f * from[j];
    }
  }
}

// C = A B^T + beta C with long rows in A and B: dot products.
template <class T>
void dot_products(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c,
                  int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const T sum = Lanes<T>::dot(a + i * lda, b + j * ldb, k);
      c[i * ldc + j] = beta == 0 ? sum : c[i * ldc + j] + sum;
    }
  }
}

// C [m, n] = A B + beta C (beta 0 or 1), with A [m, k] and B [k, n] after their ops; lda, ldb as stored. Networks of
// few inputs or outputs make thin matrices, for which the library's blocking only costs.
template <class T>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc) {
  if (op_b == Op::kNone && (k <= kThin || m <= kThin) && n > kThin)
    return scaled_rows(op_a, m, n, k, a, lda, b, ldb, beta, c, ldc);
  if (op_a == Op::kNone && op_b == Op::kTranspose && (n <= kThin || m <= kThin) && k > kThin) {
    return dot_products(m, n, k, a, lda, b, ldb, beta, c, ldc);
  }
  blas_gemm(op_a, op_b, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), a, static_cast<int>(lda), b,
            static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

// B [m, n] := op(L)^-1 B, L [m, m] lower triangular.
inline void solve_lower(Op op, int64_t m, int64_t n, const float* l, float* b) {
  cblas_strsm(CblasRowMajor, CblasLeft, CblasLower, to_cblas(op), CblasNonUnit, static_cast<int>(m),
              static_cast<int>(n), 1.0f, l, static_cast<int>(m), b, static_cast<int>(n));
}
inline void solve_lower(Op op, int64_t m, int64_t n, const double* l, double* b) {
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, to_cblas(op), CblasNonUnit, static_cast<int>(m),
              static_cast<int>(n), 1.0, l, static_cast<int>(m), b, static_cast<int>(n));
}

}  // namespace hastings
