! gfortran's formatted output of records of three numbers, 3g20.10 and 12 blanks, as DL_POLY writes them: MB/s of CPU time.
!
! Arguments: the bits of the values (8 bytes each, least significant first), and how often all are written to /dev/null.
program fortran_records
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  character(len=4096) :: path, word
  real(real64), allocatable :: values(:, :)
  integer(int64) :: bytes
  integer :: repeats, repeat, i
  real(real64) :: start, finish, best

  call get_command_argument(1, path)
  call get_command_argument(2, word)
  read(word, *) repeats
  inquire(file=trim(path), size=bytes)
  allocate(values(3, bytes / 24))
  open(unit=10, file=trim(path), access='stream', form='unformatted', action='read')
  read(10) values
  close(10)
  best = huge(best)
  do repeat = 1, repeats
    open(unit=11, file='/dev/null', form='formatted', action='write')
    call cpu_time(start)
    do i = 1, size(values, 2)
      write(11, '(3g20.10,a12)') values(1, i), values(2, i), values(3, i), ''
    end do
    call cpu_time(finish)
    close(11)
    best = min(best, finish - start)
  end do
  write(*, '(f12.1)') 73.0_real64 * size(values, 2) / best * 1.0e-6_real64
end program
