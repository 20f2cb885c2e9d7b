/* A libnvidia-ml.so.1 for tests: NVML's own symbols over one made-up GPU and one MIG slice of it.
 *
 * What it says is read at nvmlInit from the file that FAKE_NVML names, one setting a line:
 *   power_mw 250000 300000      values of the successive readings, the last one repeated
 *   fail nvmlDeviceGetPowerUsage 3 [AFTER]   that function returns 3 from its call AFTER on
 * Built with -DOLD_DRIVER it lacks what drivers before R535 lack. Structs are those of nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int ret;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10, UNKNOWN = 999 };
typedef unsigned long long u64;

#define MOST 64
typedef struct { char name[64]; double values[MOST]; int count; int next; } Setting;
typedef struct { char name[64]; int code; long after; long calls; } Failure;
static Setting settings[MOST];
static Failure calls[MOST * 2];
static int setting_count, call_count, open_count;
static double started_s;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static Setting *find(const char *name) {
    for (int i = 0; i < setting_count; i++)
        if (!strcmp(settings[i].name, name)) return &settings[i];
    return NULL;
}

static double fixed(const char *name, double otherwise) {
    Setting *s = find(name);
    return s ? s->values[0] : otherwise;
}

static double successive(const char *name, double otherwise) {
    Setting *s = find(name);
    if (!s) return otherwise;
    double value = s->values[s->next];
    if (s->next + 1 < s->count) s->next++;
    return value;
}

static Failure *counted(const char *name) {
    for (int i = 0; i < call_count; i++)
        if (!strcmp(calls[i].name, name)) return &calls[i];
    Failure *f = &calls[call_count++];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->code = 0, f->after = 0, f->calls = 0;
    return f;
}

static ret called(const char *name) {
    Failure *f = counted(name), *all = counted("every");
    long n = f->calls++, total = all->calls++;
    if (all->code && total >= all->after) return all->code;
    return f->code && n >= f->after ? f->code : OK;
}

/* For the tests: how often a function was called, and what is still open. */
long fake_calls(const char *name) { return counted(name)->calls; }
int fake_open(void) { return open_count; }

static void read_scenario(void) {
    setting_count = call_count = 0;
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return;
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        char *word = strtok(line, " \n");
        if (!word) continue;
        if (!strcmp(word, "fail")) {
            Failure *f = counted(strtok(NULL, " \n"));
            f->code = atoi(strtok(NULL, " \n"));
            char *after = strtok(NULL, " \n");
            f->after = after ? atol(after) : 0;
            continue;
        }
        Setting *s = &settings[setting_count++];
        memset(s, 0, sizeof *s);
        snprintf(s->name, sizeof s->name, "%s", word);
        while ((word = strtok(NULL, " \n")) && s->count < MOST) s->values[s->count++] = atof(word);
    }
    fclose(file);
}

static char gpu_handle, slice_handle;
typedef void *device;

ret nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!open_count) read_scenario(), started_s = now_s();
    ret code = called("nvmlInitWithFlags");
    if (!code) open_count++;
    return code;
}
ret nvmlShutdown(void) { open_count--; return called("nvmlShutdown"); }
const char *nvmlErrorString(ret code) { (void)code; return "an error of the fake"; }

ret nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "580.65.06");
    return called("nvmlSystemGetDriverVersion");
}

ret nvmlDeviceGetHandleByUUID(const char *uuid, device *found) {
    ret code = called("nvmlDeviceGetHandleByUUID");
    if (code) return code;
    if (!strcmp(uuid, "GPU-1")) *found = &gpu_handle;
    else if (!strcmp(uuid, "MIG-7") && fixed("mig", 0)) *found = &slice_handle;
    else return NOT_FOUND;
    return OK;
}
ret nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)fixed("count", 1);
    return called("nvmlDeviceGetCount_v2");
}
ret nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found) {
    *found = &gpu_handle;
    return index ? NOT_FOUND : called("nvmlDeviceGetHandleByIndex_v2");
}
ret nvmlDeviceGetUUID(device d, char *text, unsigned size) {
    snprintf(text, size, "%s", d == &slice_handle ? "MIG-7" : "GPU-1");
    return called("nvmlDeviceGetUUID");
}
ret nvmlDeviceGetName(device d, char *text, unsigned size) {
    snprintf(text, size, "%s", d ? "Made-up \"GPU\"" : "");
    return called("nvmlDeviceGetName");
}
ret nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device slice, device *gpu) {
    if (slice != &slice_handle) return INVALID;
    *gpu = &gpu_handle;
    return called("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
}
ret nvmlDeviceGetGpuInstanceId(device slice, unsigned *id) {
    if (slice != &slice_handle) return NOT_SUPPORTED;
    *id = 5;
    return called("nvmlDeviceGetGpuInstanceId");
}

/* What NVML refuses for a slice. */
#define WHOLE_GPU(name) \
    ret code = called(name); \
    if (code) return code; \
    if (handle != &gpu_handle) return NOT_SUPPORTED

ret nvmlDeviceGetClockInfo(device handle, unsigned type, unsigned *mhz) {
    WHOLE_GPU("nvmlDeviceGetClockInfo");
    *mhz = type == 1 ? successive("sm_clock", 1980) : fixed("memory_clock", 2619);
    return OK;
}
ret nvmlDeviceGetMaxClockInfo(device handle, unsigned type, unsigned *mhz) {
    WHOLE_GPU("nvmlDeviceGetMaxClockInfo");
    *mhz = type == 1 ? fixed("max_sm_clock", 1980) : fixed("max_memory_clock", 2619);
    return OK;
}
ret nvmlDeviceGetPowerUsage(device handle, unsigned *mw) {
    WHOLE_GPU("nvmlDeviceGetPowerUsage");
    *mw = successive("power_mw", 250000);
    return OK;
}
ret nvmlDeviceGetTemperature(device handle, unsigned sensor, unsigned *celsius) {
    WHOLE_GPU("nvmlDeviceGetTemperature");
    if (sensor != 0) return INVALID;
    *celsius = successive("temperature", 50);
    return OK;
}
ret nvmlDeviceGetCurrentClocksThrottleReasons(device handle, u64 *mask) {
    WHOLE_GPU("nvmlDeviceGetCurrentClocksThrottleReasons");
    *mask = successive("reasons", 0);
    return OK;
}
ret nvmlDeviceGetUtilizationRates(device handle, unsigned *percent) {
    WHOLE_GPU("nvmlDeviceGetUtilizationRates");
    percent[0] = successive("gpu_util", 85), percent[1] = 40;
    return OK;
}
ret nvmlDeviceGetMemoryInfo(device handle, u64 *bytes) {
    ret code = called("nvmlDeviceGetMemoryInfo");
    double used = handle == &slice_handle ? 1024.0 * 1048576 : 3 * 1024.0 * 1048576;
    bytes[0] = 80ull << 30, bytes[1] = (80ull << 30) - (u64)used, bytes[2] = used;
    return code;
}
ret nvmlDeviceGetPcieThroughput(device handle, unsigned counter, unsigned *kb) {
    WHOLE_GPU("nvmlDeviceGetPcieThroughput");
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* it counts for 20 ms */
    *kb = counter == 1 ? fixed("pcie_rx_kb", 2000000) : fixed("pcie_tx_kb", 1000000);
    return OK;
}
/* Brought up to date every 100 ms, at the power that energy_w says. */
ret nvmlDeviceGetTotalEnergyConsumption(device handle, u64 *mj) {
    WHOLE_GPU("nvmlDeviceGetTotalEnergyConsumption");
    u64 updates = (now_s() - started_s) / 0.1;
    *mj = 5000000 + (u64)(updates * fixed("energy_w", 400) * 0.1 * 1000);
    return OK;
}
ret nvmlDeviceGetTotalEccErrors(device handle, unsigned kind, unsigned counter, u64 *errors) {
    WHOLE_GPU("nvmlDeviceGetTotalEccErrors");
    if (counter != 0) return INVALID;
    *errors = successive(kind ? "ecc_uncorrected" : "ecc_corrected", 0);
    return OK;
}

typedef struct {
    unsigned field, scope;
    long long at, latency;
    unsigned type, code;
    u64 value;
} FieldValue;
ret nvmlDeviceGetFieldValues(device handle, int count, FieldValue *values) {
    WHOLE_GPU("nvmlDeviceGetFieldValues");
    for (int i = 0; i < count; i++) {
        values[i].code = values[i].scope == 0xFFFFFFFFu ? (unsigned)fixed("nvlink_code", NOT_SUPPORTED) : INVALID;
        /* KiB since the driver was loaded, at nvlink_kib a second. */
        values[i].value = 1000000 + (u64)((now_s() - started_s) * fixed("nvlink_kib", 0));
    }
    return OK;
}

typedef struct { unsigned pid; u64 memory; unsigned instance, compute; } Process;
ret nvmlDeviceGetComputeRunningProcesses_v3(device handle, unsigned *count, Process *found) {
    (void)handle;
    ret code = called("nvmlDeviceGetComputeRunningProcesses_v3");
    if (code) return code;
    Setting *s = find("contexts");
    unsigned have = s ? s->count : 0;
    if (*count < have) { *count = have; return SMALL; }
    for (unsigned i = 0; i < have; i++) found[i] = (Process){s->values[i], 1 << 20, 0, 0};
    *count = have;
    return OK;
}
typedef struct { unsigned pid; u64 at; unsigned sm, memory, encoder, decoder; } Use;
ret nvmlDeviceGetProcessUtilization(device handle, Use *found, unsigned *count, u64 since) {
    WHOLE_GPU("nvmlDeviceGetProcessUtilization");
    Setting *s = find("users");
    unsigned have = s ? s->count : 0;
    if (!have) return NOT_FOUND;
    if (*count < have) { *count = have; return SMALL; }
    /* One of every two is of before the time asked from, as drivers give too. */
    for (unsigned i = 0; i < have; i++) found[i] = (Use){s->values[i], since + 1, 50, 10, 0, 0};
    *count = have;
    return OK;
}

static char event_set;
ret nvmlEventSetCreate(void **set) { *set = &event_set; return called("nvmlEventSetCreate"); }
ret nvmlEventSetFree(void *set) { (void)set; return called("nvmlEventSetFree"); }
ret nvmlDeviceRegisterEvents(device handle, u64 types, void *set) {
    WHOLE_GPU("nvmlDeviceRegisterEvents");
    return types == 8 && set == &event_set ? OK : INVALID;
}
typedef struct { device handle; u64 type, data; unsigned instance, compute; } Event;
ret nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    (void)set;
    ret code = called("nvmlEventSetWait_v2");
    if (code) return code;
    Setting *s = find("xids");
    if (timeout_ms || !s || s->next >= s->count) return TIMEOUT;
    *event = (Event){&gpu_handle, 8, s->values[s->next++], 0, 0};
    return OK;
}

#ifndef OLD_DRIVER
ret nvmlDeviceGetCurrentClocksEventReasons(device handle, u64 *mask) {
    WHOLE_GPU("nvmlDeviceGetCurrentClocksEventReasons");
    *mask = successive("reasons", 0);
    return OK;
}
ret nvmlDeviceGetMemoryBusWidth(device handle, unsigned *bits) {
    WHOLE_GPU("nvmlDeviceGetMemoryBusWidth");
    *bits = fixed("bus_width", 5120);
    return OK;
}

typedef struct { unsigned version, supported; } Support;
ret nvmlGpmQueryDeviceSupport(device handle, Support *support) {
    WHOLE_GPU("nvmlGpmQueryDeviceSupport");
    support->supported = fixed("gpm", 1);
    return OK;
}
typedef struct { double at; unsigned instance; } Sample;
ret nvmlGpmSampleAlloc(Sample **sample) { *sample = calloc(1, sizeof(Sample)); return called("nvmlGpmSampleAlloc"); }
ret nvmlGpmSampleFree(Sample *sample) { free(sample); return called("nvmlGpmSampleFree"); }
ret nvmlGpmSampleGet(device handle, Sample *sample) {
    WHOLE_GPU("nvmlGpmSampleGet");
    *sample = (Sample){now_s(), 0};
    return OK;
}
ret nvmlGpmMigSampleGet(device handle, unsigned instance, Sample *sample) {
    WHOLE_GPU("nvmlGpmMigSampleGet");
    *sample = (Sample){now_s(), instance};
    return OK;
}
typedef struct { unsigned id, code; double value; const char *text[3]; } Metric;
typedef struct { unsigned version, count; Sample *first, *second; Metric metrics[]; } Query;
ret nvmlGpmMetricsGet(Query *query) {
    ret code = called("nvmlGpmMetricsGet");
    if (code) return code;
    if (query->version != 1) return 25;
    double apart = query->second->at - query->first->at;
    if (apart < 0.1) counted("gpm_too_close")->calls++;
    for (unsigned i = 0; i < query->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "gpm_%u", query->metrics[i].id);
        Setting *s = find(name);
        query->metrics[i].code = s ? OK : NOT_SUPPORTED;
        /* A slice's counters are its own: twice the whole GPU's, so that a test can tell. */
        if (s) query->metrics[i].value = s->values[0] * (query->first->instance == 5 ? 2 : 1);
    }
    return OK;
}
#endif
