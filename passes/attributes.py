"""Names of the attributes that we write on modules, functions and kernels: one place for all.

A front end notes what the graph cannot say; passes keep that, and note what they have decided.
Attributes are text, lists of text or numbers, so that a module can be printed and saved.

    name           on       who writes it               who reads it
    INPUT_NAMES    main     front ends                  extract_tasks, split_segments: the names
    OUTPUT_NAMES   main     front ends                    that requests are answered by
    LENGTHS        main     frontends/onnx              lengths: results that are counted by others
    MODEL_NAME     main     front ends                  pipeline: the problem's name
    SOURCE         main     frontends of files, cli      compiler: where the model came from (JSON)
    STATES         main     front ends of decoders      states: inputs that are kept in place
    STATE_SETS     main     decoders                    states: how many sets of them there are
    RANGES         main     front ends of decoders      states: least and largest of inputs (JSON)
    WISHES         main     frontends/relay             pins: devices named by the model (JSON)
    PINS           main     lower_to_tasks              pins: the same, by the kernel call (JSON)
    TASK_IDS       main     annotate_devices            lowered_main: the task of each call
    ONE_RESULT     main     annotate_devices, a batch   strip_devices: an element gives one tensor
    PROBLEM        module   annotate_devices            problem_and_schedule (JSON); taken away by
    SCHEDULE       module   annotate_devices              strip_devices
    CHOICES        module   pipeline, when it measured  kernel_choices, reports (JSON)
    TRACES         module   pipeline, when it measured  kernel_choices (JSON)
    PROBABILITIES  module   pipeline, where they are    branch_probabilities: how often conditions
                              given                       hold (JSON)
    PRECISION      module   pipeline, where tasks are   precision_promise: which, and the error
                              in bfloat16 or bytes        (JSON)
    ESTIMATED      module   pipeline, when it estimated compiler: by which model
    KERNEL         kernel   annotate_devices            kernel_symbols: its name in the lowered one
    DEVICE         kernel   annotate_devices            split_segments: where it runs

WISHES and PINS hold pairs: a DLPack device type, and a number among the devices of that type
(-1: any of them). A placed kernel has TVM's own attribute ``target`` beside ours.

Kernels bear attributes besides that are theirs and are defined beside what they mean, since the
kernels stand below the passes: `hetero.kernel`, `hetero.flops` and `hetero.values`
(`tvm_hetero.kernels.tir.index_values`), ``tvm_hetero.implementation``, ``.trace`` and ``.rule``
(`tvm_hetero.kernels.tir.implementation_attr`), ``tvm_hetero.batched``
(`tvm_hetero.kernels.tir.batched`); and annotations of blocks within kernels.
"""

from __future__ import annotations

# Of ``main``, set by front ends and kept by every pass.
INPUT_NAMES = "hetero_input_names"
OUTPUT_NAMES = "hetero_output_names"
LENGTHS = "hetero_lengths"
MODEL_NAME = "hetero_model_name"
SOURCE = "hetero_source"
STATES = "hetero_states"
STATE_SETS = "hetero_state_sets"
RANGES = "hetero_input_ranges"
WISHES = "hetero_device_wishes"
# Of ``main``, set by passes.
PINS = "hetero_pins"
TASK_IDS = "hetero_tasks"
ONE_RESULT = "hetero_one_result"
# Of the module.
PROBLEM = "tvm_hetero.problem"
SCHEDULE = "tvm_hetero.schedule"
CHOICES = "tvm_hetero.choices"
TRACES = "tvm_hetero.traces"
PROBABILITIES = "tvm_hetero.probabilities"
ESTIMATED = "tvm_hetero.estimated"
PRECISION = "tvm_hetero.precision"
# Of each kernel of a placed module.
KERNEL = "hetero_kernel"
DEVICE = "hetero_device"
