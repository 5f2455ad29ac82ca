(* Two threads take turns at the runtime's tick, each 50 ms: `first` and `second` begin to compute in step with it.
   usage: in_step SECONDS. Prints the CPU time of each, the number of its calls times what a call takes at the start, and
   that of the process. ci/accuracy.py compares its profile with them. *)
let chunk = 1_000_000

(* The seconds of CPU time that a call takes. *)
let calibrate compute =
  let start = Sys.time () in
  for _ = 1 to 100 do
    ignore (Sys.opaque_identity (compute chunk))
  done;
  (Sys.time () -. start) /. 100.

let[@inline never] first rounds =
  let x = ref 1 in
  for i = 1 to rounds do
    x := (!x * 5) + i
  done;
  !x

let[@inline never] second rounds =
  let x = ref 1 in
  for i = 1 to rounds do
    x := (!x * 3) lxor i
  done;
  !x

let finish = Unix.gettimeofday () +. float_of_string Sys.argv.(1)

let run compute chunks =
  while Unix.gettimeofday () < finish do
    ignore (Sys.opaque_identity (compute chunk));
    incr chunks
  done

let () =
  let takes_first = calibrate first and takes_second = calibrate second in
  let chunks_first = ref 100 and chunks_second = ref 100 in
  let other = Thread.create (fun () -> run second chunks_second) () in
  run first chunks_first;
  Thread.join other;
  Printf.printf "first %.6f\nsecond %.6f\nall %.6f\n"
    (float !chunks_first *. takes_first)
    (float !chunks_second *. takes_second)
    (Sys.time ())
