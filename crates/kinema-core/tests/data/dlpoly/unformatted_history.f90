! Writes an unformatted HISTORY file as the manual of DL_POLY_2 describes it: the golden files of Kinema's reader.
program unformatted_history
  implicit none
  integer, parameter :: natms = 5, frames = 3
  character(len=80) :: title
  character(len=8) :: atname(natms)
  real(8) :: weight(natms), charge(natms), x(natms), y(natms), z(natms), cell(9)
  character(len=200) :: path
  integer :: i, frame

  call get_command_argument(1, path)
  title = "written by gfortran"
  do i = 1, natms
    write (atname(i), '(a,i0)') "AT", i
    weight(i) = 1.5d0 * i
    charge(i) = -0.25d0 * i
  end do
  open (unit=10, file=trim(path), form='unformatted', access='sequential', status='replace')
  write (10) title
  write (10) dble(natms)
  write (10) atname
  write (10) weight
  write (10) charge
  do frame = 1, frames
    do i = 1, natms
      x(i) = 0.1d0 * i + frame
      y(i) = -0.3d0 * i
      z(i) = i * i / 7.0d0
    end do
    cell = 0.0d0
    cell(1) = 20.0d0 + frame
    cell(5) = 21.0d0
    cell(9) = 22.5d0
    write (10) dble(100 * frame), dble(natms), 2.0d0, 2.0d0, 0.001d0
    write (10) cell
    write (10) x
    write (10) y
    write (10) z
    write (10) 2 * x
    write (10) 2 * y
    write (10) 2 * z
    write (10) 3 * x
    write (10) 3 * y
    write (10) 3 * z
  end do
  close (10)
end program unformatted_history
