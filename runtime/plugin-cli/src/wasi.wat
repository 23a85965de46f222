;; WASI 0.1 for C libraries and the Go runtime, with the capabilities of the sandbox only.
;;
;; - No arguments, environment, files or sockets. Standard input is empty.
;; - Standard output and standard error go to the log of the evaluation.
;; - The clocks have a fixed time. Sleeping advances them and takes no time.
;; - Random numbers are those of the host, derived from the seed of the call.
;;
;; It never grows the memory: the Go runtime considers all pages after its own as its own.
(module
  (import "env" "memory" (memory 0))
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $draw (result i64)))
  (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $monotonic (result i64)))
  (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall (param i32)))
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $get_stdout (result i32)))
  (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $get_stderr (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))

  ;; Nanoseconds slept so far.
  (global $slept (mut i64) (i64.const 0))
  ;; The saved content of the memory that results of the host overwrite.
  (global $first (mut i64) (i64.const 0))
  (global $second (mut i64) (i64.const 0))
  ;; Handles of the streams; -1 before the first use.
  (global $stdout (mut i32) (i32.const -1))
  (global $stderr (mut i32) (i32.const -1))
  ;; Set when a stream fails: further output is dropped.
  (global $is_full (mut i32) (i32.const 0))

  ;; ---- arguments, environment, process ----

  (func $nothing (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $size) (i32.const 0))
    (i32.const 0))
  (func (export "args_sizes_get") (param i32 i32) (result i32)
    (call $nothing (local.get 0) (local.get 1)))
  (func (export "environ_sizes_get") (param i32 i32) (result i32)
    (call $nothing (local.get 0) (local.get 1)))
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "sched_yield") (result i32) (i32.const 0))
  (func $the_plugin_ended_itself (export "proc_exit") (param i32) unreachable)
  (func $the_plugin_raised_a_signal (export "proc_raise") (param i32) (result i32) unreachable)

  ;; ---- clocks ----

  ;; Results of up to 16 bytes are written to address 16, whose content is saved and restored.
  (func $save
    (global.set $first (i64.load (i32.const 16)))
    (global.set $second (i64.load (i32.const 24))))
  (func $restore
    (i64.store (i32.const 16) (global.get $first))
    (i64.store (i32.const 24) (global.get $second)))

  ;; Nanoseconds since 1970.
  (func $wall_ns (result i64)
    (local $ns i64)
    (call $save)
    (call $wall (i32.const 16))
    (local.set $ns
      (i64.add
        (i64.mul (i64.load (i32.const 16)) (i64.const 1000000000))
        (i64.load32_u (i32.const 24))))
    (call $restore)
    (local.get $ns))

  ;; Nanoseconds. Clock 0 is the wall clock.
  (func $now (param $clock i32) (result i64)
    (i64.add
      (global.get $slept)
      (if (result i64) (local.get $clock) (then (call $monotonic)) (else (call $wall_ns)))))

  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $out i32) (result i32)
    (i64.store (local.get $out) (call $now (local.get $clock)))
    (i32.const 0))

  (func (export "clock_res_get") (param $clock i32) (param $out i32) (result i32)
    (i64.store (local.get $out) (i64.const 1000000))
    (i32.const 0))

  ;; Advances the clocks to the time of a subscription.
  (func $sleep (param $subscription i32)
    (local $left i64)
    (local.set $left (i64.load offset=24 (local.get $subscription)))
    ;; An absolute time.
    (if (i32.and (i32.load16_u offset=40 (local.get $subscription)) (i32.const 1))
      (then
        (local.set $left
          (i64.sub (local.get $left) (call $now (i32.load offset=16 (local.get $subscription)))))))
    (if (i64.gt_s (local.get $left) (i64.const 0))
      (then (global.set $slept (i64.add (global.get $slept) (local.get $left))))))

  ;; All events have occurred: the clocks have advanced, and streams are ready.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $done i32) (result i32)
    (i32.store (local.get $done) (local.get $count))
    (loop $next
      (if (i32.eqz (local.get $count)) (then (return (i32.const 0))))
      (if (i32.eqz (i32.load8_u offset=8 (local.get $in)))
        (then (call $sleep (local.get $in))))
      (i64.store (local.get $out) (i64.load (local.get $in)))
      (i64.store offset=8 (local.get $out) (i64.const 0))
      (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $in)))
      (i64.store offset=16 (local.get $out) (i64.const 0))
      (i64.store offset=24 (local.get $out) (i64.const 0))
      (local.set $in (i32.add (local.get $in) (i32.const 48)))
      (local.set $out (i32.add (local.get $out) (i32.const 32)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next))
    unreachable)

  ;; ---- random numbers ----

  (func (export "random_get") (param $at i32) (param $len i32) (result i32)
    (local $bits i64)
    (local $n_bits i32)
    (loop $next
      (if (i32.eqz (local.get $len)) (then (return (i32.const 0))))
      (if (i32.eqz (local.get $n_bits))
        (then
          (local.set $bits (call $draw))
          (local.set $n_bits (i32.const 64))))
      (i64.store8 (local.get $at) (local.get $bits))
      (local.set $bits (i64.shr_u (local.get $bits) (i64.const 8)))
      (local.set $n_bits (i32.sub (local.get $n_bits) (i32.const 8)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $len (i32.sub (local.get $len) (i32.const 1)))
      (br $next))
    unreachable)

  ;; ---- streams ----

  ;; The handle of stream 1 or 2.
  (func $stream (param $fd i32) (result i32)
    (if (i32.eq (local.get $fd) (i32.const 1))
      (then
        (if (i32.eq (global.get $stdout) (i32.const -1)) (then (global.set $stdout (call $get_stdout))))
        (return (global.get $stdout))))
    (if (i32.eq (global.get $stderr) (i32.const -1)) (then (global.set $stderr (call $get_stderr))))
    (global.get $stderr))

  ;; Writes at most 4096 bytes, the limit of one call.
  (func $write_some (param $fd i32) (param $at i32) (param $len i32)
    (local $stream i32)
    (local.set $stream (call $stream (local.get $fd)))
    (call $save)
    (call $write (local.get $stream) (local.get $at) (local.get $len) (i32.const 16))
    (global.set $is_full (i32.load8_u (i32.const 16)))
    (call $restore))

  (func $write_all (param $fd i32) (param $at i32) (param $len i32)
    (local $some i32)
    (loop $next
      (if (i32.or (i32.eqz (local.get $len)) (global.get $is_full)) (then (return)))
      (local.set $some
        (select (local.get $len) (i32.const 4096) (i32.lt_u (local.get $len) (i32.const 4096))))
      (call $write_some (local.get $fd) (local.get $at) (local.get $some))
      (local.set $at (i32.add (local.get $at) (local.get $some)))
      (local.set $len (i32.sub (local.get $len) (local.get $some)))
      (br $next)))

  (func $is_stream (param $fd i32) (result i32) (i32.le_u (local.get $fd) (i32.const 2)))
  ;; 8: no such descriptor.
  (func $if_stream (param $fd i32) (result i32)
    (select (i32.const 0) (i32.const 8) (call $is_stream (local.get $fd))))

  ;; Reports all bytes as written, because the caller cannot handle a full log.
  (func (export "fd_write") (param $fd i32) (param $parts i32) (param $count i32) (param $out i32) (result i32)
    (local $total i32)
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1)) (then (return (i32.const 8))))
    (loop $next
      (if (local.get $count)
        (then
          (call $write_all
            (local.get $fd) (i32.load (local.get $parts)) (i32.load offset=4 (local.get $parts)))
          (local.set $total (i32.add (local.get $total) (i32.load offset=4 (local.get $parts))))
          (local.set $parts (i32.add (local.get $parts) (i32.const 8)))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (br $next))))
    (i32.store (local.get $out) (local.get $total))
    (i32.const 0))

  (func (export "fd_read") (param $fd i32) (param i32 i32) (param $out i32) (result i32)
    (i32.store (local.get $out) (i32.const 0))
    (call $if_stream (local.get $fd)))

  (func (export "fd_fdstat_get") (param $fd i32) (param $out i32) (result i32)
    ;; A character device, with every right.
    (if (call $is_stream (local.get $fd))
      (then
        (i64.store (local.get $out) (i64.const 2))
        (i64.store offset=8 (local.get $out) (i64.const -1))
        (i64.store offset=16 (local.get $out) (i64.const -1))))
    (call $if_stream (local.get $fd)))

  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (call $if_stream (local.get 0)))
  (func (export "fd_close") (param i32) (result i32) (call $if_stream (local.get 0)))
  (func (export "fd_sync") (param i32) (result i32) (call $if_stream (local.get 0)))
  (func (export "fd_datasync") (param i32) (result i32) (call $if_stream (local.get 0)))

  ;; ---- files and sockets: there are none. 8: no such descriptor; 70: it cannot be sought in ----

  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 70))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 70))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 8))
)
