{-# LANGUAGE BangPatterns #-}
-- Two threads take turns at the runtime's ticker, each 20 ms: `first` and `second` begin to compute in step with it.
-- usage: in_step SECONDS. Prints the CPU time of each, the number of its calls times what a call takes at the start, and
-- that of the process. ci/accuracy.py compares its profile with them.
module Main (main, first, second) where

import Control.Concurrent
import Control.Exception (evaluate)
import Control.Monad
import Data.Bits (xor)
import Data.IORef
import System.CPUTime (getCPUTime)
import System.Environment (getArgs)
import Data.Time.Clock.POSIX (getPOSIXTime)

first :: Int -> Int
first rounds = go 1 0
  where
    go :: Int -> Int -> Int
    go !x i = if i == rounds then x else go (x * 5 + i) (i + 1)
{-# NOINLINE first #-}

second :: Int -> Int
second rounds = go 1 0
  where
    go :: Int -> Int -> Int
    go !x i = if i == rounds then x else go ((x * 3) `xor` i) (i + 1)
{-# NOINLINE second #-}

calibrate :: (Int -> Int) -> IO Double
calibrate compute = do
  start <- getCPUTime
  forM_ [1 .. 100] $ \i -> evaluate (compute (1000000 + i))
  end <- getCPUTime
  pure (fromIntegral (end - start) / 1e14)

run :: (Int -> Int) -> IORef Int -> Double -> IO ()
run compute chunks finish = do
  now <- realToFrac <$> getPOSIXTime
  when (now < finish) $ do
    count <- readIORef chunks
    _ <- evaluate (compute (1000000 + count `mod` 7))
    writeIORef chunks (count + 1)
    run compute chunks finish

main :: IO ()
main = do
  [seconds] <- getArgs
  finish <- (+ read seconds) . realToFrac <$> getPOSIXTime
  takes <- mapM calibrate [first, second]
  chunks <- replicateM 2 (newIORef 100)
  over <- newEmptyMVar
  _ <- forkIO (run second (chunks !! 1) finish >> putMVar over ())
  run first (head chunks) finish
  takeMVar over
  used <- zipWithM (\count take' -> (* take') . fromIntegral <$> readIORef count) chunks takes
  total <- fromIntegral <$> getCPUTime
  zipWithM_ (\name seconds' -> putStrLn (name ++ " " ++ show seconds')) ["first", "second", "all"] (used ++ [total / 1e12])
