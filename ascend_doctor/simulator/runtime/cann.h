/* The part of CANN's interface that the stand-in defines, as plain C.
 *
 * Names, values and layouts are those of the headers that the torch_npu wheel ships under
 * torch_npu/include/third_party: acl/inc/acl/acl_base_rt.h, acl_base_mdl.h, acl_rt.h, acl_op.h,
 * acl_op_compiler.h, acl/inc/acl/error_codes/rt_error_codes.h, hccl/inc/hccl/hccl_types.h. They are
 * repeated here, because the headers differ between wheels and hccl_types.h is C++ only; a test
 * compiles every exported prototype against the wheel's own headers. */
#ifndef ASCEND_SIMULATOR_CANN_H
#define ASCEND_SIMULATOR_CANN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int aclError;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef void *aclrtDrvMemHandle;
typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);

/* acl_base_rt.h, rt_error_codes.h */
enum {
    ACL_SUCCESS = 0,
    ACL_ERROR_RT_PARAM_INVALID = 107000,
    ACL_ERROR_RT_INVALID_DEVICEID = 107001,
    ACL_ERROR_RT_CONTEXT_NULL = 107002,
    ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006,
    ACL_ERROR_RT_STREAM_ABORT = 107023,
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
    ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
    ACL_ERROR_RT_NO_DEVICE = 207004,
    ACL_ERROR_INVALID_PARAM = 100000,
    ACL_ERROR_REPEAT_INITIALIZE = 100002,
    ACL_ERROR_WAIT_CALLBACK_TIMEOUT = 100036,
    ACL_ERROR_API_NOT_SUPPORT = 200001,
    ACL_ERROR_FAILURE = 500001,
    ACL_ERROR_RT_LOST_HEARTBEAT = 507010,
    ACL_ERROR_RT_AICPU_EXCEPTION = 507018,
    ACL_ERROR_RT_DEV_SETUP_ERROR = 507033,
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046,
    ACL_ERROR_RT_FFTS_PLUS_TIMEOUT = 507048,
    ACL_ERROR_RT_FFTS_PLUS_EXCEPTION = 507049,
    ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR = 507054,
    ACLNN_ERR_PARAM_INVALID = 161002, /* catalogue: aclnn-param-invalid-161002 */
    ACLNN_ERR_INNER_NULLPTR = 561103, /* catalogue: aclnn-basic-op-561103 */
};

/* acl_base_mdl.h: the element types that torch tensors can have */
typedef enum {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27,
} aclDataType;
typedef enum { ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_ND = 2 } aclFormat;
typedef enum { ACL_MEMTYPE_DEVICE = 0, ACL_MEMTYPE_HOST = 1 } aclMemType;
typedef enum { ACL_DEBUG = 0, ACL_INFO = 1, ACL_WARNING = 2, ACL_ERROR = 3 } aclLogLevel;
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclopAttr aclopAttr;
typedef enum { ACL_ENGINE_SYS } aclopEngineType;
typedef enum { ACL_COMPILE_SYS } aclopCompileType;
typedef enum { ACL_PRECISION_MODE, ACL_OP_JIT_COMPILE = 10 } aclCompileOpt;
typedef enum { ACL_OPT_DETERMINISTIC = 0 } aclSysParamOpt;
typedef enum { ACL_CANN_ATTR_INF_NAN = 0 } aclCannAttr;

/* acl_base_rt.h */
typedef enum {
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2,
} aclDeviceInfo;

/* acl_rt.h */
typedef enum { ACL_EVENT_RECORDED_NOT_READY = 0, ACL_EVENT_RECORDED_COMPLETE = 1 } aclrtEventRecordedStatus;
typedef enum { ACL_EVENT_WAIT_COMPLETE = 0, ACL_EVENT_WAIT_NOT_READY = 1 } aclrtEventWaitStatus;
typedef enum { ACL_STREAM_COMPLETE = 0, ACL_STREAM_NOT_READY = 1 } aclrtStreamStatus;
typedef enum { ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK } aclrtCallbackBlockType;
typedef enum { ACL_MEMCPY_HOST_TO_HOST } aclrtMemcpyKind;
typedef enum { ACL_MEM_MALLOC_HUGE_FIRST } aclrtMemMallocPolicy;
typedef enum { ACL_HOST_REGISTER_MAPPED = 0 } aclrtHostRegisterType;
typedef enum { ACL_DDR_MEM, ACL_HBM_MEM } aclrtMemAttr;
typedef enum { ACL_RT_OVERFLOW_MODE_SATURATION = 0 } aclrtFloatOverflowMode;
typedef enum { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;
typedef enum {
    ACL_MEM_LOCATION_HOST = 0,
    ACL_MEM_LOCATION_DEVICE = 1,
    ACL_MEM_LOCATION_UNREGISTERED = 2,
} aclrtMemLocationType;
typedef enum {
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
} aclrtDevAttr;
typedef struct {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;
typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;
typedef struct aclrtPhysicalMemProp {
    int handleType;
    int allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization;
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    void *utilizationExtend;
} aclrtUtilizationInfo;
typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;
typedef struct aclrtMallocConfig aclrtMallocConfig;
typedef enum { ACL_PKG_NAME_CANN } aclCANNPackageName;
typedef struct aclCANNPackageVersion {
    char version[128];
    char majorVersion[64];
    char minorVersion[64];
    char releaseVersion[64];
    char patchVersion[64];
    char reserved[128];
} aclCANNPackageVersion;

/* hccl_types.h */
typedef enum {
    HCCL_SUCCESS = 0,
    HCCL_E_PARA = 1,
    HCCL_E_PTR = 2,
    HCCL_E_MEMORY = 3,
    HCCL_E_INTERNAL = 4,
    HCCL_E_NOT_SUPPORT = 5,
    HCCL_E_NOT_FOUND = 6,
    HCCL_E_UNAVAIL = 7,
    HCCL_E_SYSCALL = 8,
    HCCL_E_TIMEOUT = 9,
    HCCL_E_RUNTIME = 15,
    HCCL_E_REMOTE = 21,
} HcclResult;
typedef void *HcclComm;
typedef enum { HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN } HcclReduceOp;
typedef enum {
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16 = 1,
    HCCL_DATA_TYPE_INT32 = 2,
    HCCL_DATA_TYPE_FP16 = 3,
    HCCL_DATA_TYPE_FP32 = 4,
    HCCL_DATA_TYPE_INT64 = 5,
    HCCL_DATA_TYPE_UINT64 = 6,
    HCCL_DATA_TYPE_UINT8 = 7,
    HCCL_DATA_TYPE_UINT16 = 8,
    HCCL_DATA_TYPE_UINT32 = 9,
    HCCL_DATA_TYPE_FP64 = 10,
    HCCL_DATA_TYPE_BFP16 = 11,
    HCCL_DATA_TYPE_INT128 = 12,
    HCCL_DATA_TYPE_HIF8 = 14,
    HCCL_DATA_TYPE_FP8E8M0 = 17,
} HcclDataType;
typedef struct HcclRootInfoDef {
    char internal[4108];
} HcclRootInfo;
typedef union {
    int32_t value;
} HcclConfigValue;
typedef enum { HCCL_DETERMINISTIC = 0 } HcclConfig;
/* The leading members, the same in every version of the struct; the first 24 bytes begin with its
 * size as size_t (HcclCommConfigInit in hccl.h). */
typedef struct HcclCommConfigDef {
    char reserved[24];
    uint32_t hcclBufferSize;
    uint32_t hcclDeterministic;
    char hcclCommName[128];
} HcclCommConfig;
typedef struct HcclSendRecvItemDef {
    int sendRecvType; /* 0 send, 1 receive */
    void *buf;
    uint64_t count;
    HcclDataType dataType;
    uint32_t remoteRank;
} HcclSendRecvItem;

#endif
