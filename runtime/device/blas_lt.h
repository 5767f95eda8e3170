/* Part of blas_cuda.cu: products with an epilogue that cuBLASLt knows (blas.h, KnownEpilogue), in one kernel.
 *
 * Row-major y (m, n) is a column-major matrix of n rows, and there a bias has an element a row.  The algorithm for a shape is what the
 * library's heuristic puts first; it is asked once, and its answer, also that it has none, is kept with the device.  Workspace is
 * the one that the device was opened with: no more is taken than is counted. */
#ifndef DEVICE_BLAS_LT_H
#define DEVICE_BLAS_LT_H
#include <cublasLt.h>
#include <stdlib.h>
#include "blas.h"

static const uint32_t LT_ALIGNMENT = 16; /* bytes; the longest loads of a GPU ask for no more */
struct LtShape {
    int64_t m, n, k, types; /* types: of the operands and the result, transposes, tf32 */
    int known, operands;    /* the epilogue; whether bias and x are there, and how they are aligned */
};
struct LtChoice {
    LtShape shape;
    bool has;
    cublasLtMatmulAlgo_t algorithm;
};
struct LtChoices {
    int n, next; /* next: to be replaced once all places are taken */
    LtChoice at[256];
};

static bool lt_same(const LtShape &a, const LtShape &b)
{
    return a.m == b.m && a.n == b.n && a.k == b.k && a.types == b.types && a.known == b.known && a.operands == b.operands;
}

static LtChoice *lt_find(LtChoices *all, const LtShape &shape)
{
    for (int i = 0; i < all->n; i++)
        if (lt_same(all->at[i].shape, shape)) return &all->at[i];
    return NULL;
}

static LtChoice *lt_place(LtChoices *all)
{
    const int most = (int)(sizeof all->at / sizeof all->at[0]);
    if (all->n < most) return &all->at[all->n++];
    LtChoice *const oldest = &all->at[all->next];
    all->next = (all->next + 1) % most;
    return oldest;
}

static cublasLtEpilogue_t lt_epilogue(const LibraryForm &e)
{
    switch (e.known) {
    case BIAS: return CUBLASLT_EPILOGUE_BIAS;
    case RELU: return e.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case GELU:
        if (e.x) return e.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        return e.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case GELU_GRADIENT: return CUBLASLT_EPILOGUE_DGELU;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* What describes one product; freed at its end. */
struct LtProduct {
    cublasLtMatmulDesc_t product = NULL;
    cublasLtMatrixLayout_t a = NULL, b = NULL, y = NULL;
    bool good = true;
    LtProduct() = default;
    LtProduct(const LtProduct &) = delete;
    ~LtProduct()
    {
        if (a) cublasLtMatrixLayoutDestroy(a);
        if (b) cublasLtMatrixLayoutDestroy(b);
        if (y) cublasLtMatrixLayoutDestroy(y);
        if (product) cublasLtMatmulDescDestroy(product);
    }
    template <class V> void set(cublasLtMatmulDescAttributes_t attribute, const V &value)
    {
        good = good && cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
    }
    void lay_out(cublasLtMatrixLayout_t *layout, cudaDataType_t type, int64_t rows, int64_t columns)
    {
        good = good && cublasLtMatrixLayoutCreate(layout, type, (uint64_t)rows, (uint64_t)columns, rows) == CUBLAS_STATUS_SUCCESS;
    }
    void describe(cublasComputeType_t compute, cudaDataType_t type, cudaDataType_t result, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                  const LibraryForm &e)
    {
        good = cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
        set(CUBLASLT_MATMUL_DESC_TRANSA, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(e));
        if (e.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, e.bias);
        if (e.x) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e.x);
        if (e.x) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, n);
        lay_out(&b, type, tb ? k : n, tb ? n : k);
        lay_out(&a, type, ta ? m : k, ta ? k : m);
        lay_out(&y, result, n, m);
    }
};

/* How many bytes a pointer is certainly a multiple of, as far as an algorithm asks: an answer that is kept serves all pointers
 * that are aligned alike. */
static uint32_t lt_alignment(const void *at)
{
    const uintptr_t bits = (uintptr_t)at, lowest = bits & (~bits + 1);
    return bits == 0 || lowest > LT_ALIGNMENT ? LT_ALIGNMENT : (uint32_t)lowest;
}

static void lt_ask(LtChoice *choice, cublasLtHandle_t library, const LtProduct &p, int64_t workspace, const void *b, const void *a, const void *y)
{
    cublasLtMatmulPreference_t wishes = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    const uint64_t bytes = (uint64_t)workspace;
    const uint32_t align[] = {lt_alignment(b), lt_alignment(a), lt_alignment(y), lt_alignment(y)};
    choice->has = false;
    if (cublasLtMatmulPreferenceCreate(&wishes) != CUBLAS_STATUS_SUCCESS) return;
    cublasLtMatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4; i++) cublasLtMatmulPreferenceSetAttribute(wishes, which[i], &align[i], sizeof align[i]);
    if (cublasLtMatmulAlgoGetHeuristic(library, p.product, p.b, p.a, p.y, p.y, wishes, 1, &found, &n) == CUBLAS_STATUS_SUCCESS && n == 1 &&
        found.state == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= bytes) {
        choice->has = true;
        choice->algorithm = found.algo;
    }
    cublasLtMatmulPreferenceDestroy(wishes);
}

/* False where the library has nothing for it: then nothing was done. */
static bool lt_dot(Step *s, cudaDataType_t result, cudaDataType_t type, const void *a, const void *b, int64_t m, int64_t n, int64_t k, bool ta,
                   bool tb, const LibraryForm &e)
{
    int64_t workspace_bytes = 0;
    void *const workspace = device_blas_workspace(s->device, &workspace_bytes);
    LtChoices **const kept = (LtChoices **)device_blas_choices(s->device);
    if (e.known == OWN_KERNEL || result != type || !kept) return false;
    if (!*kept) *kept = (LtChoices *)calloc(1, sizeof(LtChoices));
    if (!*kept) return false;
    const bool tf32 = s->tf32 && type == CUDA_R_32F;
    const uint32_t align[] = {lt_alignment(a), lt_alignment(b), lt_alignment(e.y), lt_alignment(e.bias), lt_alignment(e.x)};
    int operands = (e.bias != NULL) | (e.x != NULL) << 1;
    for (int i = 0; i < 5; i++) operands |= (int)align[i] << (2 + 5 * i);
    const LtShape shape = {m, n, k, (int64_t)type | (int64_t)ta << 32 | (int64_t)tb << 33 | (int64_t)tf32 << 34, (int)e.known, operands};
    LtProduct p;
    p.describe(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, type, result, m, n, k, ta, tb, e);
    if (!p.good) return false;
    const cublasLtHandle_t library = (cublasLtHandle_t)s->blas; /* a handle of cuBLAS is one of cuBLASLt too */
    LtChoice *choice = lt_find(*kept, shape);
    if (!choice) {
        choice = lt_place(*kept);
        choice->shape = shape;
        lt_ask(choice, library, p, workspace_bytes, b, a, e.y);
    }
    if (!choice->has) return false;
    const float one = 1, zero = 0;
    choice->has = cublasLtMatmul(library, p.product, &one, b, p.b, a, p.a, &zero, e.y, p.y, e.y, p.y, &choice->algorithm, workspace,
                                 (size_t)workspace_bytes, (cudaStream_t)s->stream) == CUBLAS_STATUS_SUCCESS;
    return choice->has;
}
#endif
